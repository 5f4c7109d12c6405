"""The posterior of `Optimist`: Gaussian over theta and an intercept, with automatic prior.

Each reward updates the posterior once (`learn_reward`). The mean moves to the exact minimum of the loss of this reward
plus the distance from the old mean. Then the curvature of the loss at this minimum is added to the precision.

The prior has no settings. Its precisions follow the units of the features, the marginal likelihood (evidence) selects
one scale for all of them, and the size of the noise is estimated. These estimates improve with time. Therefore
`prior_replacement` replaces the prior at the 1st, 2nd, 4th, 8th ... reward and keeps all observations. With a half-life
it also discounts them, and at most half_life / 8 rewards pass until the next replacement.

Outlying features and rewards are limited (`outlier_limits`). `posterior_state` describes the state.
"""

import math
from typing import Any

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK, block_end, block_matrix, gather, scatter
from glbandits.maths.posteriors.covariance_factor import condition, project, separate
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.policies.shared.outlier_limits import LEAST_SQUARE, limit_of, limited_reward
from glbandits.policies.shared.posterior_state import (
    ALL_SQUARES,
    CURVATURE,
    EXPECTED,
    INTERCEPT,
    INTERCEPT_PRECISION,
    PRIOR_SCALE,
    SPREAD,
    SQUARED_RESIDUALS,
    STANDARDISED,
    WEIGHT,
    blocks_at,
    coupling_at,
    coupling_of,
    limits_of,
    mean_at,
    mean_of,
    presence_of,
    prior_of,
)  # fmt: skip

TWO_NUMBERS: Any = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
FIRST_SCALE = 0.1
"""The prior scale before the evidence selects one. The score of a typical arm then has variance 10."""
LARGEST_SHARE = 3.0
"""The largest ratio, in both directions, of a feature's share of the prior variance of a score to a typical share."""
LARGEST_GAIN = 1e8
"""The largest factor by which one reward raises the precision of its score."""


def assumed_noise(link: Link) -> float:
    """The sum of squared residuals that counts as already observed, at dispersion 1.

    For bounded rewards, whose unit is known, it is that of four rewards. Other rewards may be in any unit, so it is 0.
    """
    bounded = link.lowest_reward > -math.inf and link.highest_reward < math.inf
    return 4.0 * link.slope(0.0) if bounded else 0.0


def intercept_variance(link: Link) -> float:
    """The prior variance of the intercept.

    It is 1e6 if rewards are unbounded on both sides, because they may have any offset. Other links have a natural
    scale, on which 10 is wide. A larger value would let the first reward move the score to where the slope is almost 0,
    and all later rewards would count too little.
    """
    return 1e6 if link.lowest_reward == -math.inf and link.highest_reward == math.inf else 10.0


def is_bernoulli(link: Link) -> bool:
    """Whether rewards are in [0, 1] and the link implies the variance of 0/1 rewards, as the logistic link does."""
    if link.lowest_reward != 0.0 or link.highest_reward != 1.0:
        return False
    return all(math.isclose(link.slope(z), link.mean(z) * (1.0 - link.mean(z)), rel_tol=1e-9) for z in (0.0, 1.0))


@shared(types.void(VECTOR, READ_VECTOR))
def init_feature_prior(state: Floats, x: Floats) -> None:
    """Set the prior of features that are present for the first time, in the units of their first value."""
    dim = x.shape[0]
    presence, prior, start = presence_of(state, dim), prior_of(state, dim), blocks_at(dim)
    mean, g, limits = mean_of(state, dim), coupling_of(state, dim), limits_of(state, dim)
    present = 0.0
    for i in range(dim):
        present += presence[i] / state[WEIGHT]
    scale = state[PRIOR_SCALE] * max(present, 1.0 / LARGEST_SHARE)
    while start < state.shape[0]:
        F = block_matrix(state, start)
        for k in range(F.shape[0]):
            i = int(state[start + 1 + k])
            if x[i] != 0.0 and presence[i] == 1.0:
                prior[i], limits[i] = max(x[i] * x[i], LEAST_SQUARE) * scale, limit_of(x[i] * x[i], 1.0)
                mean[i] = g[i] = 0.0
                separate(F, k, 1.0 / prior[i])
        start = block_end(state, start)


@shared(types.void(VECTOR, READ_VECTOR, types.float64, types.float64))
def learn_reward(state: Floats, x: Floats, reward: float, noise: float, link: LinkFunctions) -> None:
    """Update the posterior by one reward, and record its residual.

    `noise` is the value of `assumed_noise`, which is 0 if rewards have no bounds. O(n^2) for a block of n features.
    """
    dim = x.shape[0]
    mean, g = mean_at(dim), coupling_at(dim)
    projected = np.empty(dim)
    present, variance = project_blocks(state, x, projected)
    score, remaining = float(state[INTERCEPT]), 1.0  # remaining is 1 - g'x
    for i in range(dim):
        score += x[i] * state[mean + i]
        remaining -= x[i] * state[g + i]
    gain = remaining / state[INTERCEPT_PRECISION]
    variance += remaining * gain
    if noise == 0.0:
        reward = limited_reward(state, score, variance, reward, link)
    pull, slope = proximal_move(state, score, variance, reward, link)
    state[INTERCEPT] += pull * gain
    if state[blocks_at(dim)] == dim:  # one block contains all features, so the update is exact
        step = slope * remaining / condition(block_matrix(state, blocks_at(dim)), projected, slope)
        for i in range(dim):
            state[mean + i] += pull * (projected[i] - gain * state[g + i])
            state[g + i] += step * projected[i]
        state[INTERCEPT_PRECISION] += step * remaining
        return
    for i in range(dim):
        state[mean + i] -= pull * gain * state[g + i]
    if present == 0.0:
        state[INTERCEPT_PRECISION] += slope
    else:
        learn_blocks(state, x, projected, pull, slope, 1.0 / math.sqrt(present))


@jittable
def proximal_move(
    state: Floats, score: float, variance: float, reward: float, link: LinkFunctions
) -> tuple[float, float]:
    """Record the residual of a reward, and return what the reward adds to the posterior.

    That is the length of the step of the mean along its covariance with the score, and the curvature.
    """
    z = proximal_score(score, variance, reward, link)
    pull, slope = proximal_pull(z, score, variance, reward, link), link.slope(z)
    record_residual(state, pull, slope, variance)
    state[SPREAD] += max(reward * (1.0 - reward), 0.0)
    return pull, slope if slope * variance <= LARGEST_GAIN else LARGEST_GAIN / variance


@shared(TWO_NUMBERS(VECTOR, READ_VECTOR, VECTOR))
def project_blocks(state: Floats, x: Floats, projected: Floats) -> tuple[float, float]:
    """Write U'x of every block with features of x to `projected`, in the order of the features.

    Returns the number of these blocks, and x'Px.
    """
    dim, start = x.shape[0], blocks_at(x.shape[0])
    if state[start] == dim:  # one block contains all features
        return 1.0, project(block_matrix(state, start), x, projected)
    features, f = np.empty(LARGEST_BLOCK), np.empty(LARGEST_BLOCK)
    present, variance = 0.0, 0.0
    while start < state.shape[0]:
        if gather(state, start, x, features):
            variance += project(block_matrix(state, start), features, f)
            scatter(state, start, f, projected)
            present += 1.0
        start = block_end(state, start)
    return present, variance


@jittable
def record_residual(state: Floats, pull: float, slope: float, variance: float) -> None:
    """Add the residual of a reward before its update to the sums for the dispersion.

    The residual is computed from the one after the update with the slope there. With the slope at the old score, a
    first reward of 1000 under the log link would look like noise.
    """
    leverage = 1.0 + slope * variance
    residual = min(max(pull * leverage, -1e50), 1e50)
    state[SQUARED_RESIDUALS] += residual * residual
    state[ALL_SQUARES] += residual * residual
    state[EXPECTED] += min(slope * leverage, 1e100)
    state[STANDARDISED] += residual * residual / leverage
    state[CURVATURE] += min(slope, 1e100)


@shared(types.void(VECTOR, READ_VECTOR, VECTOR, types.float64, types.float64, types.float64))
def learn_blocks(state: Floats, x: Floats, projected: Floats, pull: float, slope: float, constant: float) -> None:
    """Move the mean by pull Px, and update P, g and s for the curvature of a reward, block by block.

    With m blocks, each block gets the curvature of its own features and of `constant` = 1/sqrt(m) in place of 1. The
    matrix stays positive definite, and the curvature of the intercept alone is exact.
    """
    dim, start = x.shape[0], blocks_at(x.shape[0])
    mean, g = mean_of(state, dim), coupling_of(state, dim)
    features, f = np.empty(LARGEST_BLOCK), np.empty(LARGEST_BLOCK)
    while start < state.shape[0]:
        if gather(state, start, x, features):
            gather(state, start, projected, f)
            F, remaining = block_matrix(state, start), constant
            for k in range(F.shape[0]):
                remaining -= features[k] * g[int(state[start + 1 + k])]
            step = slope * remaining / condition(F, f, slope)
            for k in range(F.shape[0]):
                i = int(state[start + 1 + k])
                mean[i] += pull * f[k]
                g[i] += step * f[k]
            state[INTERCEPT_PRECISION] += step * remaining
        start = block_end(state, start)
