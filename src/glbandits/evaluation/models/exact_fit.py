"""Fitting Optimist's posterior again to all rows that it has learned: exactly, where one pass is only close.

One pass adds the curvature of a reward where its mean was at that moment. If rewards are rare, the mean starts far too
high. There the curvature is large, so that the mean counts as known, and falls like 1 / sqrt(rows) instead of 1 / rows.
"""

import numpy as np
from scipy.optimize import minimize

from glbandits.evaluation.models.link_arrays import of_scores
from glbandits.maths.links import Link
from glbandits.maths.posteriors.block_covariance import block_matrix
from glbandits.policy_bases.self_scaling_posterior import (
    INTERCEPT,
    INTERCEPT_PRECISION,
    blocks_at,
    coupling_of,
    mean_of,
    prior_of,
)
from glbandits.records import Floats


def refit(state: Floats, X: Floats, rewards: Floats, intercept: tuple[float, float], link: Link) -> None:
    """Replace the mean and the precision of a state by the mode of the posterior and the curvature there. In place.

    Args:
        state: of `Optimist`, with one block of features. It keeps its prior of theta.
        X: features of all rows, (rows, dim).
        rewards: of all rows.
        intercept: mean and precision of its prior.
        link: of the model.
    """
    dim = X.shape[1]
    mean, prior = mean_of(state, dim), np.append(prior_of(state, dim), intercept[1])
    centre = np.append(np.zeros(dim), intercept[0])
    scales = 1.0 / np.sqrt(prior)  # in these units every prior variance is 1
    design = np.column_stack([X, np.ones(len(X))]) * scales

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores, moved = design @ theta, theta - centre / scales
        value = of_scores(link, "antiderivative", scores).sum() - rewards @ scores + 0.5 * moved @ moved
        return float(value), design.T @ (of_scores(link, "mean", scores) - rewards) + moved

    def hessian(theta: Floats) -> Floats:
        slopes = of_scores(link, "slope", design @ theta)
        H: Floats = design.T @ (slopes[:, np.newaxis] * design) + np.eye(dim + 1)
        return H

    start = np.append(mean, state[INTERCEPT]) / scales
    mode: Floats = minimize(loss, start, jac=True, hess=hessian, method="trust-exact").x
    H = hessian(mode) / np.outer(scales, scales)
    P: Floats = np.asarray(np.linalg.inv(H[:dim, :dim]))
    g = P @ H[:dim, dim]
    block_matrix(state, blocks_at(dim))[:] = P
    mean[:], coupling_of(state, dim)[:] = mode[:dim] * scales[:dim], g
    state[INTERCEPT] = mode[dim] * scales[dim]
    state[INTERCEPT_PRECISION] = max(float(H[dim, dim] - H[dim, :dim] @ g), intercept[1])
