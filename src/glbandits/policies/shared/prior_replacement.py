"""Replacement of the prior in `self_scaling_posterior` by one in the units of the data.

The marginal likelihood (evidence) selects the scale of the new prior. If there is a half-life, the replacement also
discounts old observations.
"""

import math

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import MATRIX, READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.cholesky import forward, solve_factorised
from glbandits.maths.posteriors.block_covariance import block_end, block_matrix
from glbandits.maths.posteriors.covariance_factor import factorise_precision, from_cholesky, to_precision
from glbandits.policies.shared.outlier_limits import LEAST_SQUARE, NO_LIMIT, limit_of
from glbandits.policies.shared.posterior_state import (
    ALL_SQUARES,
    COUNT,
    CURVATURE,
    EXPECTED,
    INTERCEPT,
    INTERCEPT_PRECISION,
    LAST,
    NEXT,
    PRIOR_SCALE,
    SPREAD,
    SQUARED_RESIDUALS,
    STANDARDISED,
    WEIGHT,
    blocks_at,
    coupling_of,
    dispersion,
    limits_of,
    mean_of,
    presence_of,
    prior_of,
    squares_of,
    votes_of,
)  # fmt: skip
from glbandits.policies.shared.self_scaling_posterior import LARGEST_SHARE

SCALES = (1.0, 0.3, 0.1, 0.03)
"""Candidates for the prior scale. With larger ones the policy gets stuck, with smaller ones it explores too much."""
EVIDENCE_FROM = 64
"""The number of rewards from which on the evidence selects the scale."""
FORGOTTEN = 1e-100
"""A feature whose discounted presence is at most this counts as never seen."""


@jittable
def rescaled_prior(squares: Floats, presence: Floats, weight: float) -> Floats:
    """Return prior precisions under which x'theta has variance 1 for a typical arm x.

    `squares` is the sum of the squares of each feature, `presence` the number of rewards for which it was not 0, and
    `weight` the number of all rewards.

    Each feature contributes a share to this variance. The share is proportional to the mean square of the feature, but
    limited to between a third of and three times a typical share. Consequences: multiplying all features by a number
    changes nothing; a feature in much larger or smaller units is rescaled; a slightly larger feature counts slightly
    more. A feature that was never seen counts as a typical one.
    """
    dim = squares.shape[0]
    prior, logs, seen = np.empty(dim), 0.0, 0  # at first `prior` is the mean square of each feature
    for i in range(dim):
        prior[i] = 1.0
        if presence[i] > 0.0:
            prior[i] = max(squares[i] / presence[i], LEAST_SQUARE)
            logs += math.log(prior[i])
            seen += 1
    if seen > 0:
        typical, total = math.exp(logs / seen), 0.0
        for i in range(dim):
            share = 1.0 if presence[i] == 0.0 else min(max(prior[i] / typical, 1.0 / LARGEST_SHARE), LARGEST_SHARE)
            total += share * presence[i] / weight
            prior[i] = typical if presence[i] == 0.0 else prior[i] / share
        for i in range(dim):
            prior[i] *= max(total, 1.0 / LARGEST_SHARE)  # the limit matters if most rows are zero
    return prior


@jittable
def discount_sums(state: Floats, dim: int, half_life: float) -> float:
    """Discount all sums for the rewards since the last replacement, and set the limits of features.

    Returns the discount factor.
    """
    discount = discount_scalars(state, half_life)
    squares, presence, votes = squares_of(state, dim), presence_of(state, dim), votes_of(state, dim)
    limits = limits_of(state, dim)
    for i in range(dim):
        factor = discount if presence[i] > FORGOTTEN else 0.0
        limits[i] = limit_of(squares[i], presence[i]) if presence[i] > FORGOTTEN else NO_LIMIT
        squares[i] *= factor
        presence[i] *= factor
        votes[i] *= factor
    return discount


@jittable
def discount_scalars(state: Floats, half_life: float) -> float:
    """Discount the scalar sums, and schedule the next replacement.

    Returns the discount factor.
    """
    discount = math.exp(-math.log(2.0) * (state[COUNT] - state[LAST]) / half_life)
    state[WEIGHT] *= discount
    state[CURVATURE] *= discount
    state[STANDARDISED] *= discount
    state[ALL_SQUARES] *= discount
    # Early residuals contain the error of an estimate from few rewards. Those of the first half get a weight of 1/4.
    early = state[LAST] / state[COUNT]
    state[SQUARED_RESIDUALS] *= discount * early * early
    state[EXPECTED] *= discount * early * early
    state[SPREAD] *= discount * early * early
    state[LAST] = state[COUNT]
    state[NEXT] = state[COUNT] + min(state[COUNT], max(1.0, half_life / 8.0))
    return discount


@shared(types.void(VECTOR, types.int64, types.float64, types.float64, types.float64))
def replace_prior(state: Floats, dim: int, half_life: float, noise: float, intercept_precision: float) -> None:
    """Replace the prior by one with the best scale, and discount old observations.

    The prior mean is 0. Therefore the new posterior follows from the old one and the change of D beyond the discount,
    which is a diagonal matrix of the size of the priors. Sums over all observations, such as e, are not used: with
    large curvatures they would lose the information about the intercept to rounding. O(n^3) for a block of n features.
    """
    new_prior = rescaled_prior(squares_of(state, dim), presence_of(state, dim), state[WEIGHT])
    phi = dispersion(state, noise)
    discount = discount_sums(state, dim, half_life)
    mean, g, prior, b = mean_of(state, dim), coupling_of(state, dim), prior_of(state, dim), state[INTERCEPT]
    for i in range(dim):
        mean[i] += g[i] * b  # now the mean of theta given that the intercept is 0
    state[INTERCEPT] = discount * state[INTERCEPT_PRECISION] * b  # now s b
    state[INTERCEPT_PRECISION] = discount * state[INTERCEPT_PRECISION] + (1.0 - discount) * intercept_precision
    invert_blocks(state, dim, discount)
    change, least, scale = np.empty(dim), np.empty(dim), float(state[PRIOR_SCALE])
    if state[COUNT] >= EVIDENCE_FROM:
        best = -np.inf
        for candidate in SCALES:
            for i in range(dim):
                least[i] = candidate * new_prior[i]
                change[i] = least[i] - discount * prior[i]
            evidence = log_evidence(state, change, least, intercept_precision, phi) + 0.5 * dim * math.log(candidate)
            if evidence > best:
                best, scale = evidence, candidate
    state[PRIOR_SCALE] = scale
    for i in range(dim):
        change[i] = scale * new_prior[i] - discount * prior[i]
        prior[i] = scale * new_prior[i]
    change_prior(state, change, prior, intercept_precision)


@jittable
def invert_blocks(state: Floats, dim: int, factor: float) -> None:
    """Replace the factors of P by D = P^-1 times a number."""
    start = blocks_at(dim)
    while start < state.shape[0]:
        to_precision(block_matrix(state, start), factor)
        start = block_end(state, start)


@shared(types.void(MATRIX, VECTOR, types.int64, READ_VECTOR, READ_VECTOR))
def factorise_changed(D: Floats, state: Floats, start: int, change: Floats, least: Floats) -> None:
    """Add diag(change) to the precision D of the block at `start`, and overwrite it with its Cholesky factor.

    `least` has the prior precisions that are a part of the sum.
    """
    n = D.shape[0]
    pivots = np.empty(n)
    for k in range(n):
        i = int(state[start + 1 + k])
        D[k, k] += change[i]
        pivots[k] = least[i]
    factorise_precision(D, pivots)


@shared(types.float64(VECTOR, READ_VECTOR, READ_VECTOR, types.float64, types.float64))
def log_evidence(state: Floats, change: Floats, least: Floats, intercept_precision: float, dispersion: float) -> float:
    """The log evidence after adding diag(change) to D, by Laplace's approximation. O(n^3).

    Omits the logarithms of the prior precisions, and terms that do not depend on the change. The state must be in the
    form that `change_prior` takes, and least, y, z, s and s b are as there.
    """
    dim = change.shape[0]
    mean, g, start = mean_of(state, dim), coupling_of(state, dim), blocks_at(dim)
    total, fitted, s, sb = 0.0, 0.0, float(state[INTERCEPT_PRECISION]), float(state[INTERCEPT])
    while start < state.shape[0]:
        n = int(state[start])
        R, y, z = block_matrix(state, start).copy(), np.empty(n), np.empty(n)
        factorise_changed(R, state, start, change, least)
        for k in range(n):
            i = int(state[start + 1 + k])
            y[k], z[k] = change[i] * mean[i], change[i] * g[i]
            fitted -= y[k] * mean[i]
            s += z[k] * g[i]
            sb += z[k] * mean[i]
        forward(R, y)
        forward(R, z)
        for k in range(n):
            total -= math.log(R[k, k])
            fitted += y[k] * y[k]
            s -= z[k] * z[k]
            sb -= y[k] * z[k]
        start = block_end(state, start)
    s = max(s, intercept_precision)
    return total - 0.5 * math.log(s) + 0.5 * (fitted + sb * sb / s) / dispersion


@shared(types.void(VECTOR, READ_VECTOR, READ_VECTOR, types.float64))
def change_prior(state: Floats, change: Floats, least: Floats, intercept_precision: float) -> None:
    """Add diag(change) to D, and compute the factors of P, g, s and the means of theta and the intercept.

    On entry the state contains D in its blocks, s b as the intercept, and the mean of theta given an intercept of 0.
    `least` has the prior precisions after the change. With y = change * mean and z = change * g (elementwise), the new
    values are P = (D + diag(change))^-1, mean - P y, g - P z, s + z'(g - P z) and s b + z'(mean - P y).
    """
    dim = change.shape[0]
    mean, g, start = mean_of(state, dim), coupling_of(state, dim), blocks_at(dim)
    s, sb = float(state[INTERCEPT_PRECISION]), float(state[INTERCEPT])
    while start < state.shape[0]:
        n, R = int(state[start]), block_matrix(state, start)
        z, Py, Pz = np.empty(n), np.empty(n), np.empty(n)
        for k in range(n):
            i = int(state[start + 1 + k])
            z[k] = change[i] * g[i]
            Py[k], Pz[k] = change[i] * mean[i], z[k]
        factorise_changed(R, state, start, change, least)
        solve_factorised(R, Py)
        solve_factorised(R, Pz)
        for k in range(n):
            i = int(state[start + 1 + k])
            mean[i] -= Py[k]
            g[i] -= Pz[k]
            s += z[k] * g[i]
            sb += z[k] * mean[i]
        from_cholesky(R)
        start = block_end(state, start)
    state[INTERCEPT_PRECISION] = max(s, intercept_precision)
    state[INTERCEPT] = sb / state[INTERCEPT_PRECISION]
    for i in range(dim):
        mean[i] -= g[i] * state[INTERCEPT]
