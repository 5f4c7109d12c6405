"""Refit the posterior of `Optimist` to all rows that it has learned.

Online learning adds the curvature of each reward at the mean of that moment. If rewards are rare, the initial mean is
far too high. The curvature is large there, so that the posterior becomes too certain, and the predicted mean falls
like 1 / sqrt(rows) instead of 1 / rows. The refit finds the exact mode and the curvature there.
"""

import numpy as np
from scipy.optimize import minimize

from glbandits.common.arrays import Floats
from glbandits.evaluation.models.link_arrays import apply_link
from glbandits.maths.links import Link
from glbandits.maths.posteriors.block_covariance import block_matrix
from glbandits.maths.posteriors.covariance_factor import factor_of_inverse
from glbandits.policies.shared.posterior_state import (
    INTERCEPT,
    INTERCEPT_PRECISION,
    blocks_at,
    coupling_of,
    mean_of,
    prior_of,
)


def refit(state: Floats, X: Floats, rewards: Floats, intercept: tuple[float, float], link: Link) -> None:
    """Set the mean and the precision of a state to the posterior mode and its curvature.

    Changes `state` in place.

    Args:
        state: state of `Optimist` with one block of features. Its prior of theta stays.
        X: features of all rows, (rows, dim).
        rewards: rewards of all rows, (rows,).
        intercept: mean and precision of the prior of the intercept.
        link: link of the model.
    """
    dim = X.shape[1]
    mean, prior = mean_of(state, dim), np.append(prior_of(state, dim), intercept[1])
    centre = np.append(np.zeros(dim), intercept[0])
    scales = 1.0 / np.sqrt(prior)  # in these units each prior variance is 1
    design = np.column_stack([X, np.ones(len(X))]) * scales

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores, moved = design @ theta, theta - centre / scales
        value = apply_link(link, "antiderivative", scores).sum() - rewards @ scores + 0.5 * moved @ moved
        return float(value), design.T @ (apply_link(link, "mean", scores) - rewards) + moved

    def hessian(theta: Floats) -> Floats:
        slopes = apply_link(link, "slope", design @ theta)
        H: Floats = design.T @ (slopes[:, np.newaxis] * design) + np.eye(dim + 1)
        return H

    start = np.append(mean, state[INTERCEPT]) / scales
    mode: Floats = minimize(loss, start, jac=True, hess=hessian, method="trust-exact").x
    H = hessian(mode)
    g = np.linalg.solve(H[:dim, :dim], H[:dim, dim])
    block_matrix(state, blocks_at(dim))[:] = factor_of_inverse(H[:dim, :dim], scales[:dim])
    mean[:], coupling_of(state, dim)[:] = mode[:dim] * scales[:dim], g * scales[:dim] / scales[dim]
    state[INTERCEPT] = mode[dim] * scales[dim]
    state[INTERCEPT_PRECISION] = max(float(H[dim, dim] - H[dim, :dim] @ g) / scales[dim] ** 2, intercept[1])
