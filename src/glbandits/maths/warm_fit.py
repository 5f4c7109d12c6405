"""Fit all observations again after each new one, in O(t d) instead of O(t d^2).

A policy keeps the last estimate and a `memory`: the Cholesky factor R of a Hessian, and what it belongs to. A new
observation changes the Hessian by one outer product, and the estimate only a little. So `refit` updates R by rotations,
takes a first step from the new observation alone, and then steps of -(R'R)^-1 times the gradient of all observations.
Each step multiplies the error by how far R'R is from the Hessian. `refit` computes R afresh where that is cheaper than
the steps it saves. If even that does not converge, it calls `likelihood.fit_or_diverge`.

**When there is no estimate** (see `likelihood`), the fit has ridge 1. To ask again after each reward would cost two
diverging Newton runs. Instead the memory keeps a direction v along which no loss grows: for ever along v, the score of
an observation stays the same or approaches the end of the link's range where its reward is. While a new observation does
not contradict v, there is still no estimate.
"""

import math

import numpy as np

from glbandits.compiled import jittable
from glbandits.maths.cholesky import backward, forward, solve_factorised, update
from glbandits.maths.likelihood import STEEPEST, fit_or_diverge, hessian_factor, largest, least_curvature
from glbandits.maths.links import LinkFunctions
from glbandits.maths.rows import add_rows, set_scores
from glbandits.maths.vectors import add_scaled, copy_to, dot, norm
from glbandits.records import Floats

VALID, RIDGE, RIDGE_USED, REFRESHES, DIRECTION = 0, 1, 2, 3, 4
"""The memory: 1 if R is valid, the ridge asked for, the ridge of R, Hessians computed; the direction v, and R."""
MAX_PASSES = 50
TOLERANCE = 1e-8
"""The error of theta after the last step, in standard errors and relative to 1 + the largest coefficient."""
SLOW = 0.5
"""A step must reduce the error by this factor, or R is computed afresh."""
FAR = 1e4
"""A score at which the mean of a link counts as its limit."""
FLAT = 1e-9
"""A score below this share of its terms counts as 0."""


@jittable
def memory_size(dim: int) -> int:
    """The number of floats in the memory. All zeros is an empty memory."""
    return DIRECTION + dim + dim * dim


@jittable
def factor_in(memory: Floats, dim: int) -> Floats:
    """R: a slice of the memory."""
    return memory[DIRECTION + dim : DIRECTION + dim + dim * dim].reshape(dim, dim)


@jittable
def refit(
    features: Floats,
    rewards: Floats,
    counts: Floats,
    ridge: float,
    theta: Floats,
    memory: Floats,
    x: Floats,
    reward: float,
    link: LinkFunctions,
) -> bool:
    """Overwrite theta with the fit to all rows, the last of whose observations is (x, reward). True if it converged.

    Theta is the result of the last call, and is not read before the first one succeeds. `memory[RIDGE_USED]` is the
    ridge of the fit: the one asked for, or RIDGE_WITHOUT_MLE.
    """
    n, dim = features.shape
    R, used = factor_in(memory, dim), float(memory[RIDGE_USED])
    known = memory[VALID] == 1.0 and memory[RIDGE] == ridge
    if known and used != ridge and n >= dim:
        known = not_contradicted(memory[DIRECTION : DIRECTION + dim], x, reward, link)
    if known:
        z, step, start = dot(x, theta), np.empty(dim), theta.copy()
        residual = reward - link.mean(z)
        update(R, min(link.slope(z), STEEPEST), x)
        for i in range(dim):
            step[i] = residual * x[i]
        forward(R, step)
        length = norm(step)
        backward(R, step)
        add_scaled(theta, 1.0, step)
        if descend(features, rewards, counts, used, np.zeros(dim), theta, memory, length, link):
            return True
        copy_to(theta, start)
    return fit_afresh(features, rewards, counts, ridge, np.zeros(dim), theta, memory, link)


@jittable
def refit_towards(
    features: Floats,
    rewards: Floats,
    counts: Floats,
    ridge: float,
    centre: Floats,
    theta: Floats,
    memory: Floats,
    link: LinkFunctions,
) -> bool:
    """Overwrite theta with the fit to these rows and this centre. True if it converged.

    For rewards that have all changed: steps go from theta, any estimate near by, with R of the memory. Pass a copy of
    the memory to keep R at the last estimate.
    """
    if memory[VALID] == 1.0 and memory[RIDGE] == ridge and memory[RIDGE_USED] == ridge:
        start = theta.copy()
        if descend(features, rewards, counts, ridge, centre, theta, memory, np.inf, link):
            return True
        copy_to(theta, start)
    return fit_afresh(features, rewards, counts, ridge, centre, theta, memory, link)


@jittable
def descend(
    features: Floats,
    rewards: Floats,
    weights: Floats,
    ridge: float,
    centre: Floats,
    theta: Floats,
    memory: Floats,
    last_length: float,
    link: LinkFunctions,
) -> bool:
    """Steps of -(R'R)^-1 gradient from theta, in place, until the error is below TOLERANCE. False: no convergence.

    The length of a step in the norm of R'R is its length in standard errors. last_length is that of the step that led
    to theta, infinite if there was none. The ratio of two lengths estimates the factor by which a step reduces the
    error.
    """
    n, dim = features.shape
    R, fresh = factor_in(memory, dim), False
    residuals, gradient, step = np.empty(n), np.empty(dim), np.empty(dim)
    # A Hessian and its factor in units of a pass over the rows, as measured at d = 6, 20 and 55.
    refresh_cost = 1.0 + dim / 7.0 + dim * dim / (4.0 * n + 1.0)
    for _ in range(MAX_PASSES):
        set_scores(residuals, features, theta)
        for s in range(n):
            residuals[s] = weights[s] * (rewards[s] - link.mean(residuals[s]))
        for i in range(dim):
            gradient[i] = ridge * (centre[i] - theta[i])
        add_rows(gradient, residuals, features)
        copy_to(step, gradient)
        forward(R, step)
        length = norm(step)
        rate = length / last_length if last_length < np.inf else 1.0
        slow = last_length < np.inf and not rate <= SLOW
        if length > TOLERANCE or not length >= 0.0:
            expensive = slow
            if not slow and rate < 1.0:
                expensive = math.log(TOLERANCE / length) < (1.0 + refresh_cost) * math.log(rate)
            if expensive:
                if (slow and fresh) or not hessian_factor(R, features, weights, ridge, theta, link):
                    return False
                memory[REFRESHES] += 1.0
                copy_to(step, gradient)
                forward(R, step)
                length, rate = norm(step), 1.0
            fresh = expensive
        backward(R, step)
        add_scaled(theta, 1.0, step)
        done = rate * length <= TOLERANCE and rate * largest(step) <= TOLERANCE * (1.0 + largest(theta))
        if done or (slow and length <= TOLERANCE):  # the rest is rounding
            return True
        last_length = length
    return False


@jittable
def fit_afresh(
    features: Floats,
    rewards: Floats,
    weights: Floats,
    ridge: float,
    centre: Floats,
    theta: Floats,
    memory: Floats,
    link: LinkFunctions,
) -> bool:
    """Overwrite theta by `likelihood.fit_or_diverge`, from theta, and the memory with the Hessian there."""
    n, dim = features.shape
    R, direction = factor_in(memory, dim), memory[DIRECTION : DIRECTION + dim]
    result = fit_or_diverge(features, rewards, weights, ridge, centre, theta, direction, link)
    copy_to(theta, result.theta)
    if result.ridge != ridge and n >= dim:
        find_direction(features, rewards, weights, direction, R, link)
    solvable = hessian_factor(R, features, weights, result.ridge, theta, link)
    memory[VALID] = 1.0 if result.converged and solvable else 0.0
    memory[RIDGE], memory[RIDGE_USED] = ridge, result.ridge
    memory[REFRESHES] += 1.0
    return result.converged


@jittable
def find_direction(
    features: Floats, rewards: Floats, weights: Floats, direction: Floats, R: Floats, link: LinkFunctions
) -> None:
    """Overwrite direction, where Newton diverged to, with one along which no loss grows; zeros if none is found.

    On separable data that is the direction to where Newton diverged. Otherwise it is its projection to the space where
    the Hessian has vanished. Overwrites R.
    """
    n, dim = features.shape
    small = 1e3 * largest(least_curvature(features, weights, link)) + 1e-300
    for attempt in range(2):
        if attempt == 1:
            hessian_factor(R, features, weights, small, direction, link)
            if norm(direction) == 0.0:
                for i in range(dim):
                    direction[i] = 0.5 + 0.618 * i % 1.0
            for _ in range(2):
                solve_factorised(R, direction)
                length = norm(direction)
                for i in range(dim):
                    direction[i] /= length
        valid = norm(direction) > 0.0
        for s in range(n):
            valid = valid and not_contradicted(direction, features[s], rewards[s], link)
        if valid:
            return
    for i in range(dim):
        direction[i] = 0.0


@jittable
def not_contradicted(direction: Floats, x: Floats, reward: float, link: LinkFunctions) -> bool:
    """Whether the loss of an observation does not grow for ever along this direction. False if that is 0."""
    z, size, length = 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        z += x[i] * direction[i]
        size += abs(x[i] * direction[i])
        length += abs(direction[i])
    if abs(z) <= FLAT * size:
        return length > 0.0
    far = FAR if z > 0.0 else -FAR
    if not link.slope(far) * FAR <= 1e-3 * link.slope(0.0):  # no limit, or not reached
        return False
    return reward >= link.mean(far) if z > 0.0 else reward <= link.mean(far)
