"""Fits with the constraint ||theta|| <= radius."""

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import add_outer, factorise, forward, solve_factorised
from glbandits.maths.fitting.likelihood import STEEPEST
from glbandits.maths.fitting.warm_fit import RIDGE, RIDGE_USED, VALID, factor_in, memory_size, refit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, copy_to, dot, norm

MAX_STEPS = 100
TOLERANCE = 1e-10
"""The length of the last step, relative to the radius."""
ON_SPHERE = 1e-8
"""The largest distance from the sphere, relative to the radius, at which an estimate is scaled to the sphere."""
MAX_FAILURES = 5
"""The number of fits without convergence after which the search for nu ends: their sums overflow or cancel."""
NARROWEST = 1e-12
"""The relative width of the bracket of nu at which the search ends."""
SHORTEST = 1e-9
"""The smallest part of a step that is tried. If it does not descend, theta is optimal up to rounding."""


@jittable
def fit_in_ball(
    features: Floats,
    rewards: Floats,
    weights: Floats,
    ridge: float,
    radius: float,
    start: Floats,
    link: LinkFunctions,
) -> Floats:
    """The theta in the ball that minimises `likelihood.objective`. It is unique if ridge > 0."""
    theta = start.copy()
    refit_in_ball(features, rewards, weights, ridge, radius, theta, np.zeros(memory_size(start.shape[0])), link)
    return theta


@jittable
def refit_in_ball(
    features: Floats,
    rewards: Floats,
    counts: Floats,
    ridge: float,
    radius: float,
    theta: Floats,
    memory: Floats,
    link: LinkFunctions,
) -> None:
    """As `fit_in_ball`, with a memory as in `warm_fit.refit`. Overwrites theta.

    The ridge must be positive. If the plain fit is outside the ball, the result is the plain fit with ridge + nu, for
    the only nu > 0 for which it is on the sphere. Its norm decreases in nu, so Newton's method on 1/norm within a
    bracket finds nu. It starts from the last nu, and usually takes 2 or 3 fits of O(n d).
    """
    dim, length = theta.shape[0], 0.0
    R, scratch, centre = factor_in(memory, dim), np.empty(dim), np.zeros(dim)
    nu, low, high = max(memory[RIDGE] - ridge, 0.0) if memory[VALID] == 1.0 else 0.0, -1.0, np.inf
    failures = 0
    for _ in range(MAX_STEPS):
        memory[RIDGE] = memory[RIDGE_USED] = ridge + nu  # R of the last nu is close enough for a start
        converged = refit(features, rewards, counts, ridge + nu, centre, False, theta, memory, link)
        failures += 0 if converged else 1
        length = norm(theta)
        if abs(length - radius) <= ON_SPHERE * radius or (nu == 0.0 and length <= radius):
            break
        if length > radius:
            low = nu
        else:
            high = nu
        copy_to(scratch, theta)
        forward(R, scratch)
        nu = max(nu + length * length / max(dot(scratch, scratch), 1e-300) * (length / radius - 1.0), 0.0)
        if not low < nu < high:
            nu = 0.5 * (max(low, 0.0) + min(high, STEEPEST))
        if failures == MAX_FAILURES or high - low <= NARROWEST * abs(low):
            break
    if (nu > 0.0 and length > 0.0) or length > radius:
        for i in range(dim):
            theta[i] *= radius / length


@jittable
def match_means_in_ball(
    features: Floats, weights: Floats, ridge: float, R: Floats, radius: float, theta_hat: Floats, link: LinkFunctions
) -> Floats:
    """The theta in the ball whose g(theta) is nearest to g(theta_hat).

    The distance is in the norm of the inverse of R'R. Here g(theta) = sum w mu(x'theta) x + ridge theta, which is
    sum w y x at a ridge estimate. If theta_hat is in the ball, the result is theta_hat.

    The distance is not convex in theta. The result is the stationary point that descent reaches from theta_hat scaled
    to the sphere. Each step minimises, in the ball, the distance with g replaced by its linear expansion: an
    unconstrained step, then `project_in_norm`. A step is halved until the distance decreases.
    """
    theta, there, goal = into_ball(theta_hat, radius), np.empty(theta_hat.shape[0]), np.zeros(theta_hat.shape[0])
    if norm(theta_hat) <= radius:
        return theta
    add_means(goal, features, weights, ridge, theta_hat, link)
    distance, size = norm(mean_gap(features, weights, ridge, R, goal, theta, link)), 1.0
    step = gauss_newton_step(features, weights, ridge, R, goal, radius, theta, link)
    for _ in range(MAX_STEPS):
        if size * norm(step) <= TOLERANCE * radius or size <= SHORTEST:
            break
        copy_to(there, theta)
        add_scaled(there, size, step)
        there_distance = norm(mean_gap(features, weights, ridge, R, goal, there, link))
        if there_distance < distance:
            copy_to(theta, there)
            distance, size = there_distance, 1.0
            step = gauss_newton_step(features, weights, ridge, R, goal, radius, theta, link)
        else:
            size *= 0.5
    return theta


@jittable
def into_ball(theta: Floats, radius: float) -> Floats:
    """A copy of theta, scaled to the sphere if it is outside the ball."""
    inside, length = theta.copy(), norm(theta)
    if length > radius:
        for i in range(theta.shape[0]):
            inside[i] *= radius / length
    return inside


@jittable
def gauss_newton_step(
    features: Floats,
    weights: Floats,
    ridge: float,
    R: Floats,
    goal: Floats,
    radius: float,
    theta: Floats,
    link: LinkFunctions,
) -> Floats:
    """The step from theta to the minimum of the linearised distance in the ball."""
    dim = theta.shape[0]
    jacobian, inner, descent = np.zeros((dim, dim)), np.zeros((dim, dim)), np.empty(dim)
    for s in range(features.shape[0]):
        add_outer(jacobian, weights[s] * link.slope(dot(features[s], theta)), features[s])
    for i in range(dim):
        jacobian[i, i] += ridge
        for j in range(i):
            jacobian[i, j] = jacobian[j, i]
    gap, largest = mean_gap(features, weights, ridge, R, goal, theta, link), 0.0
    for i in range(dim):
        forward(R, jacobian[i])
        descent[i] = -dot(jacobian[i], gap)
        for j in range(i + 1):
            inner[j, i] = dot(jacobian[i], jacobian[j])
        largest = max(largest, inner[i, i])
    least = 1e-12 * largest + 1e-300  # for directions without observations
    for i in range(dim):
        inner[i, i] += least
    factorise(inner, least, descent)
    return step_in_ball(descent, inner, radius, theta)


@jittable
def step_in_ball(descent: Floats, R: Floats, radius: float, theta: Floats) -> Floats:
    """The step from theta to the projection of theta + (R'R)^-1 descent. Overwrites descent."""
    solve_factorised(R, descent)
    add_scaled(descent, 1.0, theta)
    project_in_norm(descent, R, radius)
    add_scaled(descent, -1.0, theta)
    return descent


@jittable
def mean_gap(
    features: Floats, weights: Floats, ridge: float, R: Floats, goal: Floats, theta: Floats, link: LinkFunctions
) -> Floats:
    """The vector R'^-1 (g(theta) - goal).

    Its norm is the distance in the norm of the inverse of R'R.
    """
    gap = np.empty(theta.shape[0])
    for i in range(theta.shape[0]):
        gap[i] = -goal[i]
    add_means(gap, features, weights, ridge, theta, link)
    forward(R, gap)
    return gap


@jittable
def add_means(
    target: Floats, features: Floats, weights: Floats, ridge: float, theta: Floats, link: LinkFunctions
) -> None:
    """Compute target += g(theta), in place."""
    add_scaled(target, ridge, theta)
    for s in range(features.shape[0]):
        add_scaled(target, weights[s] * link.mean(dot(features[s], theta)), features[s])
