"""Fitting a generalized linear model to what was observed, by a guarded Newton method.

The objective is the paper's loss with optional weights and ridge:

    sum_s w_s [m(x_s'theta) - y_s x_s'theta] + (ridge/2) ||theta||^2.

It is convex for every strictly increasing link. For the canonical links (identity, logistic, log) its minimum
is the maximum likelihood estimate; for others, such as probit, it solves the paper's equation
sum (y - mu) x = 0, which is a quasi-likelihood.

**When there is no estimate.** Without ridge, a logistic likelihood has no maximum on separable data, and no
likelihood has a unique one when the features do not span the space. Both are common in the first rounds of a
bandit. `fit` then fits again with `RIDGE_WITHOUT_MLE`, and the result says so. No label is ever edited.
"""

import math
from typing import NamedTuple

import numpy as np

from glbandits.compiled import jittable
from glbandits.maths.cholesky import factorise, solve_factorised
from glbandits.maths.links import LinkFunctions
from glbandits.maths.vectors import add_scaled, dot
from glbandits.records import Floats

RIDGE_WITHOUT_MLE = 1.0
"""The ridge used where the plain estimate does not exist: a standard normal prior on theta."""
MAX_ITERATIONS = 50
"""More than enough where there is a minimum. On separable data each step adds 1 or so to every margin."""
TOLERANCE = 1e-9
"""Newton has converged when its step changes no score by more than this, relative to 1 + the largest score."""


class Fit(NamedTuple):
    """An estimate, and how far it can be trusted."""

    theta: Floats
    converged: bool
    """Whether Newton reached its tolerance."""
    ridge: float
    """The ridge of this fit: the one that was asked for, or RIDGE_WITHOUT_MLE if that one has no minimum."""


@jittable
def fit(features: Floats, rewards: Floats, weights: Floats, ridge: float, start: Floats, link: LinkFunctions) -> Fit:
    """Minimise the objective above from a warm start. O((n + d) min(n, d)^2) a step, so linear in d if n < d."""
    theta, converged, used = start, False, ridge
    for penalty in (ridge, max(ridge, RIDGE_WITHOUT_MLE)):
        if not converged:
            theta, converged = newton(features, rewards, weights, penalty, start, link)
            used = penalty
    return Fit(theta, converged, used)


@jittable
def newton(
    features: Floats, rewards: Floats, weights: Floats, ridge: float, start: Floats, link: LinkFunctions
) -> tuple[Floats, bool]:
    """Newton's method, each step halved until the objective falls. False: no convergence."""
    samples, dim = features.shape
    theta = start.copy()
    scores, score_steps, curvature = np.empty(samples), np.empty(samples), np.empty(samples)
    gradient, step = np.empty(dim), np.empty(dim)
    gram = gram_matrix(features) if samples < dim else np.empty((0, 0))
    flat = curvature_at_zero(features, weights, ridge, link)
    set_scores(scores, features, theta)
    value = objective(scores, theta, rewards, weights, ridge, link)
    for _ in range(MAX_ITERATIONS):
        for i in range(dim):
            gradient[i] = ridge * theta[i]
        for s in range(samples):
            add_scaled(gradient, weights[s] * (link.mean(scores[s]) - rewards[s]), features[s])
            curvature[s] = weights[s] * link.slope(scores[s])
        for i in range(dim):
            step[i] = -gradient[i]
        if samples >= dim:
            solvable = solve_in_feature_space(features, curvature, flat, ridge, step)
        else:
            solvable = solve_in_sample_space(features, gram, curvature, ridge, step)
        if not solvable:
            return theta, False
        set_scores(score_steps, features, step)
        slope = dot(gradient, step)
        size, old_value = 1.0, value
        add_scaled(theta, size, step)
        add_scaled(scores, size, score_steps)
        value = objective(scores, theta, rewards, weights, ridge, link)
        # The last term forgives what rounding adds to the objective next to its minimum.
        while size > 1e-12 and not value <= old_value + 1e-4 * size * slope + 1e-12 * (1.0 + abs(old_value)):
            size *= 0.5
            add_scaled(theta, -size, step)
            add_scaled(scores, -size, score_steps)
            value = objective(scores, theta, rewards, weights, ridge, link)
        if size == 1.0 and largest(score_steps) <= TOLERANCE * (1.0 + largest(scores)):
            return theta, True
    return theta, False


@jittable
def objective(
    scores: Floats, theta: Floats, rewards: Floats, weights: Floats, ridge: float, link: LinkFunctions
) -> float:
    """The penalised loss, given the scores x_s'theta."""
    total = 0.5 * ridge * dot(theta, theta)
    for s in range(scores.shape[0]):
        total += weights[s] * (link.antiderivative(scores[s]) - rewards[s] * scores[s])
    return total


@jittable
def curvature_at_zero(features: Floats, weights: Floats, ridge: float, link: LinkFunctions) -> Floats:
    """The diagonal of the Hessian at theta = 0: the scale to tell by that curvature has vanished elsewhere.

    On separable data it does: all scores run off to where the mean is flat.
    """
    diagonal = np.full(features.shape[1], ridge)
    for s in range(features.shape[0]):
        for i in range(features.shape[1]):
            diagonal[i] += weights[s] * link.slope(0.0) * features[s, i] ** 2
    return diagonal


@jittable
def solve_in_feature_space(features: Floats, curvature: Floats, flat: Floats, ridge: float, step: Floats) -> bool:
    """Overwrite step = g with (X'WX + ridge I)^-1 g by a d x d factor. False if that matrix is singular."""
    samples, dim = features.shape
    hessian = np.zeros((dim, dim))
    for s in range(samples):
        for i in range(dim):
            add_scaled(hessian[i, : i + 1], curvature[s] * features[s, i], features[s, : i + 1])
    for i in range(dim):
        hessian[i, i] += ridge
    if not factorise(hessian, flat):
        return False
    solve_factorised(hessian, step)
    return True


@jittable
def solve_in_sample_space(features: Floats, gram: Floats, curvature: Floats, ridge: float, step: Floats) -> bool:
    """The same by an n x n factor (Woodbury), for fewer samples than features. False without a ridge."""
    samples = features.shape[0]
    root, coefficients, inner = np.empty(samples), np.empty(samples), np.empty((samples, samples))
    set_scores(coefficients, features, step)
    for s in range(samples):
        root[s] = math.sqrt(curvature[s])
        coefficients[s] *= root[s]
        for r in range(s + 1):
            inner[s, r] = root[s] * gram[s, r] * root[r]
        inner[s, s] += ridge
    if ridge == 0.0 or not factorise(inner, np.full(samples, ridge)):
        return False
    solve_factorised(inner, coefficients)
    for s in range(samples):
        add_scaled(step, -root[s] * coefficients[s], features[s])
    for i in range(step.shape[0]):
        step[i] /= ridge
    return True


@jittable
def set_scores(scores: Floats, features: Floats, theta: Floats) -> None:
    """Write x_s'theta for every row into scores."""
    for s in range(features.shape[0]):
        scores[s] = dot(features[s], theta)


@jittable
def gram_matrix(features: Floats) -> Floats:
    """The lower triangle of XX'."""
    samples = features.shape[0]
    gram = np.empty((samples, samples))
    for s in range(samples):
        for r in range(s + 1):
            gram[s, r] = dot(features[s], features[r])
    return gram


@jittable
def largest(values: Floats) -> float:
    """The largest absolute value."""
    top = 0.0
    for value in values:
        top = max(top, abs(value))
    return top
