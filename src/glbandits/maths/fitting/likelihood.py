"""Fit a generalized linear model to observations, by Newton's method with line search.

The objective is the loss of the SGD-TS paper, with optional weights and a ridge:

    sum_s w_s [m(x_s'theta) - y_s x_s'theta] + (ridge/2) ||theta - centre||^2.

The objective is convex for every strictly increasing link. For the canonical links (identity, logistic, log) its
minimum is the maximum likelihood estimate. For other links, such as probit, the minimum solves the equation of the
paper, sum (y - mu) x = 0, which is a quasi-likelihood.

**When there is no estimate.** Without a ridge, a logistic likelihood has no maximum on separable data, and no
likelihood has a unique maximum if the features do not span the space. Both are common in the first rounds of a bandit.
`fit` then fits again with the ridge `RIDGE_WITHOUT_MLE`, and returns that ridge. It never changes rewards.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import MATRIX, READ_MATRIX, READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.cholesky import factorise, solve_factorised
from glbandits.maths.links import LinkFunctions
from glbandits.maths.matrix_products import add_rows, set_gram, set_scores
from glbandits.maths.vectors import add_scaled, copy_to, dot

RIDGE_WITHOUT_MLE = 1.0
"""The ridge if the estimate without a ridge does not exist: a standard normal prior of theta."""
MAX_ITERATIONS = 50
"""More than enough if there is a minimum. On separable data, each step adds about 1 to every margin."""
MAX_HALVINGS = 500
"""The largest number of halved steps in all iterations of an attempt. Only features of extreme sizes need more."""
TOLERANCE = 1e-6
"""Newton's method has converged if a step changes no score by more than this, relative to 1 + the largest score.

The last step is still taken, and squares the error. If a mean is close to 0 or 1, scores cannot be more precise. Most
policies refit by `warm_fit.refit`, which has its own tolerance.
"""
STEEPEST = 1e100
"""The largest curvature; larger values are reduced to it. Its square does not overflow."""
SINGULAR = 1e-12
"""A curvature below this share of the curvature at theta = 0 counts as zero."""


class Fit(NamedTuple):
    """An estimate, and whether the fit converged."""

    theta: Floats
    converged: bool
    """Whether Newton's method reached its tolerance."""
    ridge: float
    """The ridge of this fit: the requested one, or RIDGE_WITHOUT_MLE if there is no minimum without a ridge."""


FIT: Any = types.NamedTuple([VECTOR, types.boolean, types.float64], Fit)  # type: ignore[no-untyped-call]


@jittable
def fit(features: Floats, rewards: Floats, weights: Floats, ridge: float, start: Floats, link: LinkFunctions) -> Fit:
    """Minimise the objective above with centre 0, from a given start.

    O((n + d) min(n, d)^2) for each step, which is linear in d if n < d.
    """
    dim = features.shape[1]
    return fit_or_diverge(features, rewards, weights, ridge, np.zeros(dim), start, np.empty(dim), link)


@shared(FIT(READ_MATRIX, READ_VECTOR, READ_VECTOR, types.float64, READ_VECTOR, READ_VECTOR, VECTOR))
def fit_or_diverge(
    features: Floats,
    rewards: Floats,
    weights: Floats,
    ridge: float,
    centre: Floats,
    start: Floats,
    diverged: Floats,
    link: LinkFunctions,
) -> Fit:
    """As `fit` with any centre, by Newton's method from up to three points.

    The centre is the mean of a normal prior with precision ridge. If there is no minimum without a ridge, writes to
    `diverged` the theta at which Newton's method stopped.
    """
    theta, used, converged = start.copy(), ridge, False
    # At a distant start the curvature may vanish although there is a minimum. So the second attempt starts at the
    # centre. The third has the ridge RIDGE_WITHOUT_MLE if none was requested.
    for attempt in range(3 if ridge == 0.0 else 2):
        if attempt > 0:
            copy_to(diverged, theta)
            copy_to(theta, centre)
        if attempt == 2:
            used = RIDGE_WITHOUT_MLE
        converged = minimise(features, rewards, weights, used, centre, theta, link)
        if converged:
            break
    return Fit(theta, converged, used)


@shared(types.boolean(READ_MATRIX, READ_VECTOR, READ_VECTOR, types.float64, READ_VECTOR, VECTOR))
def minimise(
    features: Floats,
    rewards: Floats,
    weights: Floats,
    ridge: float,
    centre: Floats,
    theta: Floats,
    link: LinkFunctions,
) -> bool:
    """Take Newton steps from theta, in place, each halved until the objective decreases.

    Returns False if the Hessian is singular, or if no step decreases the objective, or after MAX_ITERATIONS.
    """
    samples, dim = features.shape
    scores, score_steps, there_scores = np.empty(samples), np.empty(samples), np.empty(samples)
    residuals, curvature = np.empty(samples), np.empty(samples)
    gradient, step, there, least = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    square = np.empty((min(samples, dim), min(samples, dim)))  # the Hessian, or XX' of fewer samples than features
    if samples >= dim:
        set_least_curvature(least, features, weights, link)
    else:
        set_gram_of_samples(square, features)
    set_scores(scores, features, theta)
    value, slope, halvings = objective(scores, theta, rewards, weights, ridge, centre, link), -np.inf, 0
    for _ in range(MAX_ITERATIONS):
        for i in range(dim):
            gradient[i] = ridge * (theta[i] - centre[i])
        for s in range(samples):
            residuals[s] = weights[s] * (link.mean(scores[s]) - rewards[s])
            curvature[s] = weights[s] * link.slope(scores[s])
        add_rows(gradient, residuals, features)
        if samples >= dim:
            solvable = step_in_feature_space(features, curvature, ridge, least, gradient, square, step)
        else:
            solvable = step_in_sample_space(features, square, scores, residuals, curvature, ridge, centre, theta, step)
        if not solvable:
            return False
        set_scores(score_steps, features, step)
        slope = dot(gradient, step)
        small_step = largest(score_steps) <= TOLERANCE * (1.0 + largest(scores))
        # -slope / 2 is the distance of the objective to its minimum, if it is nearly quadratic here.
        if small_step and -slope <= TOLERANCE * (1.0 + abs(value)):
            add_scaled(theta, 1.0, step)
            return True
        # Take the first of 1, 1/2, 1/4, ... of the step that decreases the objective enough (Armijo).
        size = 1.0
        while size > 1e-60:
            for i in range(dim):
                there[i] = theta[i] + size * step[i]
            for s in range(samples):
                there_scores[s] = scores[s] + size * score_steps[s]
            there_value = objective(there_scores, there, rewards, weights, ridge, centre, link)
            # The last term allows for rounding errors of the objective near its minimum.
            if there_value <= value + 1e-4 * size * slope + 1e-12 * (1.0 + abs(value)):
                break
            halvings += 1
            size = 0.5 * size if halvings < MAX_HALVINGS else 0.0
        if size <= 1e-60:
            return False
        value = there_value
        copy_to(theta, there)
        set_scores(scores, features, theta)  # not by sums of steps, which accumulate rounding errors
    # If means are 0 or 1 up to rounding, scores do not converge, but with a ridge the objective does.
    return ridge > 0.0 and -slope <= 1e-12 * (1.0 + abs(value))


@jittable
def objective(
    scores: Floats,
    theta: Floats,
    rewards: Floats,
    weights: Floats,
    ridge: float,
    centre: Floats,
    link: LinkFunctions,
) -> float:
    """The penalised loss, given the scores x_s'theta."""
    total = 0.0
    for i in range(theta.shape[0]):
        difference = theta[i] - centre[i]
        total += 0.5 * ridge * (difference * difference)
    for s in range(scores.shape[0]):
        total += weights[s] * (link.antiderivative(scores[s]) - rewards[s] * scores[s])
    return total


@jittable
def set_least_curvature(least: Floats, features: Floats, weights: Floats, link: LinkFunctions) -> None:
    """Write for each feature the curvature below which it counts as zero.

    It is a share of the curvature at theta = 0. On separable data all scores diverge to where the mean is flat, and the
    curvature vanishes.
    """
    steepness = link.slope(0.0)
    for i in range(features.shape[1]):
        least[i] = 0.0
    for s in range(features.shape[0]):
        for i in range(features.shape[1]):
            least[i] += SINGULAR * weights[s] * steepness * (features[s, i] * features[s, i])


@shared(types.boolean(MATRIX, READ_MATRIX, READ_VECTOR, types.float64, READ_VECTOR))
def hessian_factor(
    R: Floats, features: Floats, weights: Floats, ridge: float, theta: Floats, link: LinkFunctions
) -> bool:
    """Overwrite R with the Cholesky factor of the Hessian of the objective at theta. O(n d^2).

    Returns False if the Hessian is singular, which never happens with a ridge.
    """
    curvature, threshold = np.empty(features.shape[0]), np.empty(theta.shape[0])
    set_scores(curvature, features, theta)
    for s in range(features.shape[0]):
        curvature[s] = min(weights[s] * link.slope(curvature[s]), STEEPEST)
    set_gram(R, curvature, features, ridge)
    for i in range(theta.shape[0]):
        threshold[i] = SINGULAR * R[i, i]
    return factorise(R, ridge, threshold)


@shared(types.boolean(READ_MATRIX, READ_VECTOR, types.float64, READ_VECTOR, READ_VECTOR, MATRIX, VECTOR))
def step_in_feature_space(
    features: Floats,
    curvature: Floats,
    ridge: float,
    least: Floats,
    gradient: Floats,
    hessian: Floats,
    step: Floats,
) -> bool:
    """Write the Newton step, computed by a d x d factor, which overwrites `hessian`.

    Returns False if a curvature is below `least` or lost in rounding errors, which never happens with a ridge.
    """
    dim = features.shape[1]
    threshold = np.empty(dim)
    set_gram(hessian, curvature, features, ridge)
    for i in range(dim):
        threshold[i] = max(least[i], SINGULAR * hessian[i, i])
        step[i] = -gradient[i]
    if not factorise(hessian, ridge, threshold):
        return False
    solve_factorised(hessian, step)
    return True


@shared(
    types.boolean(
        READ_MATRIX, READ_MATRIX, READ_VECTOR, READ_VECTOR, READ_VECTOR, types.float64, READ_VECTOR, READ_VECTOR, VECTOR
    )
)
def step_in_sample_space(
    features: Floats,
    gram: Floats,
    scores: Floats,
    residuals: Floats,
    curvature: Floats,
    ridge: float,
    centre: Floats,
    theta: Floats,
    step: Floats,
) -> bool:
    """Write the Newton step, computed by an n x n factor, for fewer samples than features.

    The step leads to centre + X'W^1/2 (W^1/2 XX' W^1/2 + ridge I)^-1 (W^1/2 z - W^-1/2 r), where z are the scores minus
    the scores of the centre, and r the residuals. Returns False if the ridge is 0.
    """
    samples, dim = features.shape
    if ridge == 0.0:
        return False
    root, coefficients, inner = np.empty(samples), np.empty(samples), np.empty((samples, samples))
    set_scores(coefficients, features, centre)
    for s in range(samples):
        root[s] = math.sqrt(max(curvature[s], 1e-300))
        coefficients[s] = root[s] * (scores[s] - coefficients[s]) - residuals[s] / root[s]
        for r in range(s + 1):
            inner[r, s] = root[r] * gram[r, s] * root[s]
        inner[s, s] += ridge
    factorise(inner, ridge, root)
    solve_factorised(inner, coefficients)
    for i in range(dim):
        step[i] = centre[i] - theta[i]
    for s in range(samples):
        coefficients[s] *= root[s]
    add_rows(step, coefficients, features)
    return True


@jittable
def set_gram_of_samples(gram: Floats, features: Floats) -> None:
    """Write the upper triangle of XX'."""
    for s in range(features.shape[0]):
        for r in range(s + 1):
            total = 0.0
            for i in range(features.shape[1]):
                total += features[s, i] * features[r, i]
            gram[r, s] = total


@jittable
def largest(values: Floats) -> float:
    """The largest absolute value."""
    top = 0.0
    for value in values:
        top = max(top, abs(value))
    return top
