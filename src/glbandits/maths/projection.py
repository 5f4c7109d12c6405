"""Projection to a ball in the norm of a matrix."""

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import add_outer, factorise, forward, solve_factorised
from glbandits.maths.vectors import copy_to, dot_row, norm


@jittable
def project_in_norm(theta: Floats, R: Floats, radius: float) -> None:
    """Project theta, in place, to the ball ||theta|| <= radius in the norm of A = R'R.

    If theta is outside the ball, the nearest point is p(nu) = (A + nu I)^-1 A theta, with the only nu > 0 for which it
    is on the sphere. Newton's method on 1/||p(nu)|| approaches nu from below without overshooting, in about five steps
    of O(d^3) (More and Sorensen 1983). Scaling theta would give another point, unless A is a multiple of I.
    """
    dim = theta.shape[0]
    if norm(theta) <= radius:
        return
    # Limit the distance to 1e100 radii, because squares would overflow. Only the direction matters there.
    largest = 0.0
    for i in range(dim):
        largest = max(largest, abs(theta[i]))
    if not largest <= 1e100 * radius:
        for i in range(dim):
            theta[i] = theta[i] / largest * 1e100 * radius if largest < np.inf else 0.0
    A, A_theta, point, whitened = np.zeros((dim, dim)), np.empty(dim), np.empty(dim), np.empty(dim)
    for k in range(dim):
        add_outer(A, 1.0, R[k])
    for i in range(dim):
        A_theta[i] = 0.0
    for k in range(dim):
        product = dot_row(R, k, theta)
        for i in range(dim):
            A_theta[i] += R[k, i] * product
    nu = 0.0
    copy_to(point, theta)
    copy_to(whitened, theta)
    forward(R, whitened)  # its norm is that of the point in (A + nu I)^-1
    for _ in range(50):
        length = norm(point)
        ratio = length / max(norm(whitened), 1e-150)  # 0 if its squares underflow
        step = ratio * ratio * (length / radius - 1.0)  # not ** 2: Python and compiled code round it differently
        if not length > radius * (1.0 + 1e-14) or not nu + step > nu:
            break
        nu += step
        shifted = A.copy()
        for i in range(dim):
            shifted[i, i] += nu
        factorise(shifted, nu, A_theta)
        copy_to(point, A_theta)
        solve_factorised(shifted, point)
        copy_to(whitened, point)
        forward(shifted, whitened)
    length = norm(point)
    if length <= 1.000001 * radius:
        copy_to(theta, point)
        return
    length = norm(theta)  # rounding errors exceed the result, or are NaN
    for i in range(dim):
        theta[i] *= radius / length
