"""Projection onto a ball in the norm of a matrix."""

import numpy as np

from glbandits.maths.cholesky import add_outer, factorise, solve_factorised
from glbandits.maths.vectors import copy_to, dot_row, norm
from glbandits.numba_support import jittable
from glbandits.records import Floats


@jittable
def project_in_norm(theta: Floats, R: Floats, radius: float) -> None:
    """Move theta, in place, to the point of the ball round 0 that is nearest in the norm of A = R'R.

    Outside the ball that point is (A + nu I)^-1 A theta for the one nu > 0 that puts it on the sphere, found by
    bisection. Scaling theta back is another point unless A is a multiple of I. O(d^3), but nothing to do inside.
    """
    dim = theta.shape[0]
    if norm(theta) <= radius:
        return
    # Far outside, the direction is all that matters: beyond 1e100 radii squares would overflow.
    largest = 0.0
    for i in range(dim):
        largest = max(largest, abs(theta[i]))
    if not largest <= 1e100 * radius:
        for i in range(dim):
            theta[i] = theta[i] / largest * 1e100 * radius if largest < np.inf else 0.0
    A, b, point = np.zeros((dim, dim)), np.empty(dim), np.empty(dim)
    for k in range(dim):
        add_outer(A, 1.0, R[k])
    for i in range(dim):
        b[i] = 0.0
    for k in range(dim):
        product = dot_row(R, k, theta)
        for i in range(dim):
            b[i] += R[k, i] * product
    low, high = 0.0, norm(b) / radius
    for _ in range(100):
        nu = 0.5 * (low + high)
        shifted = A.copy()
        for i in range(dim):
            shifted[i, i] += nu
        copy_to(point, b)
        factorise(shifted, nu, b)
        solve_factorised(shifted, point)
        if norm(point) > radius:
            low = nu
        else:
            high = nu
        if high - low <= 1e-14 * high:
            break
    copy_to(theta, point)
