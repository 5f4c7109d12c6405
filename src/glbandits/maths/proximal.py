"""Proximal steps: minimise the loss of one observation plus the distance to theta."""

import math

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import add_outer, factorise, solve_factorised, solve_for_variance
from glbandits.maths.links import LinkFunctions
from glbandits.maths.vectors import add_scaled, copy_to, dot

FARTHEST = 1e300
"""The largest absolute score. A longer gradient step would overflow."""


@jittable
def proximal_score(score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """The score z = x'theta after a proximal step.

    The step minimises (1/2)||theta - theta_t||^2_H + m(x'theta) - reward x'theta. With score = x'theta_t and
    variance = x'H^-1 x, z is the only root of z - score + variance (mu(z) - reward). The root is between the score and
    the end of a full gradient step. If that interval is long, doubling steps find a shorter one. Newton's method then
    finds the root. Bisection replaces Newton steps that leave the interval or are slow.
    """
    far = min(max(score - variance * (link.mean(score) - reward), -FARTHEST), FARTHEST)
    reach, end = 1.0, far
    while abs(far - score) > reach:
        end = max(score - reach, far) if far < score else min(score + reach, far)
        value = end - score + variance * (link.mean(end) - reward)
        if (value <= 0.0) == (far < score):
            break
        reach, end = 2.0 * reach, far
    low, high = min(score, end), max(score, end)
    z, last_step = score, np.inf
    for _ in range(200):
        value = z - score + variance * (link.mean(z) - reward)
        if value > 0.0:
            high = z
        else:
            low = z
        step = value / (1.0 + variance * link.slope(z))
        next_z, precise = z - step, 1e-8  # the error after a Newton step is about its square
        if not low <= next_z <= high or abs(step) > 0.5 * last_step:
            next_z, precise = 0.5 * (low + high), 1e-14
        last_step = abs(next_z - z)
        z = next_z
        if last_step <= precise * (1.0 + abs(z)):
            break
    return z


@jittable
def proximal_pull(z: float, score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """The length of the step of theta along H^-1 x to the score z.

    It is reward - mu(z), or (z - score) / variance. Both are equal at the root. The second form is more precise if the
    reward is nearly fitted, and the first form if the variance is small.
    """
    return (z - score) / variance if variance * link.slope(z) > 1.0 else reward - link.mean(z)


@jittable
def proximal_step(
    theta: Floats,
    R: Floats,
    weight: float,
    x: Floats,
    reward: float,
    times: float,
    centre: Floats,
    Q: Floats,
    level: float,
    link: LinkFunctions,
) -> Floats:
    """The theta in an ellipsoid that minimises one loss plus (weight/2)||theta - theta_t||^2.

    The distance is in the norm of R'R. The loss is times (m(x'theta) - reward x'theta). The ellipsoid is
    (theta - centre)'Q(theta - centre) <= level. If the unconstrained minimum is outside, bisection finds the multiplier
    nu of the constraint: for a given nu the problem is unconstrained, with another start and the norm of
    weight R'R + nu Q. O(d^2) without the constraint, and O(d^3) for each trial of nu.
    """
    dim = theta.shape[0]
    direction, step = np.empty(dim), theta.copy()
    score, variance = dot(x, theta), times / weight * solve_for_variance(R, x, direction)
    z = proximal_score(score, variance, reward, link)
    add_scaled(step, times / weight * proximal_pull(z, score, variance, reward, link), direction)
    if squared_distance(step, centre, Q) <= level:
        return step
    A, A_theta, Qc = np.zeros((dim, dim)), np.zeros(dim), np.empty(dim)
    for k in range(dim):
        add_outer(A, weight, R[k])
        add_scaled(A_theta, weight * dot(R[k], theta), R[k])
        Qc[k] = dot(Q[k], centre)
    copy_to(step, centre)  # a point inside, if no nu is large enough
    low, high = -40.0, 40.0  # the bracket of log(nu)
    for _ in range(60):
        nu = math.exp(0.5 * (low + high))
        P, start = A.copy(), A_theta.copy()
        for i in range(dim):
            for j in range(i, dim):
                P[i, j] += nu * Q[i, j]
        factorise(P, 1e-300, start)
        add_scaled(start, nu, Qc)
        solve_factorised(P, start)
        score, variance = dot(x, start), times * solve_for_variance(P, x, direction)
        z = proximal_score(score, variance, reward, link)
        add_scaled(start, times * proximal_pull(z, score, variance, reward, link), direction)
        if not squared_distance(start, centre, Q) <= level:  # also if it is NaN
            low = 0.5 * (low + high)
        else:
            high = 0.5 * (low + high)
            copy_to(step, start)
    return step


@jittable
def squared_distance(point: Floats, centre: Floats, Q: Floats) -> float:
    """(point - centre)'Q(point - centre), the squared distance in the norm of Q."""
    total = 0.0
    for i in range(point.shape[0]):
        for j in range(point.shape[0]):
            total += (point[i] - centre[i]) * Q[i, j] * (point[j] - centre[j])
    return total
