"""The posterior of `Optimist`: Gaussian over theta and an intercept, with automatic prior.

Each reward updates the posterior once (`learn_reward`). The mean moves to the exact minimum of the loss of this reward
plus the distance from the old mean. Then the curvature of the loss at this minimum is added to the precision.

The prior has no settings. Its precisions follow the units of the features, the marginal likelihood (evidence) selects
one scale for all of them, and the size of the noise is estimated. These estimates improve with time. Therefore
`prior_replacement` replaces the prior at the 1st, 2nd, 4th, 8th ... reward and keeps all observations. With a half-life
it also discounts them, and at most half_life / 8 rewards pass until the next replacement.

The precision matrix of theta and the intercept b is [[D, c], [c', e]]. The state contains P = D^-1 in blocks
(`block_covariance`), the coupling g = P c, and s = e - c'g, the precision of b after theta is integrated out. The
variance of the score x'theta + b is then x'Px + (1 - g'x)^2 / s.
"""

import math

import numpy as np

from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.posteriors.block_covariance import (
    LARGEST_BLOCK,
    are_valid_blocks,
    block_end,
    block_matrix,
    diagonal_form,
    gather,
    quadratic_form,
    scatter,
    subtract_outer,
)  # fmt: skip
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.numba_support import jittable
from glbandits.policy import StateLayout
from glbandits.records import Floats

SCALARS = StateLayout()
"""The scalars of the posterior, with which a state begins."""
COUNT = SCALARS.count("count")
"""The number of rewards learned."""
LAST, NEXT = SCALARS.scalar("last", at_least=0.0), SCALARS.scalar("next", at_least=0.0)
"""The count at the last and at the next replacement of the prior."""
WEIGHT = SCALARS.scalar("weight", at_least=0.0)
"""The number of rewards, discounted by the half-life. The sums below are discounted too."""
SQUARED_RESIDUALS = SCALARS.scalar("squared_residuals", at_least=0.0)
EXPECTED = SCALARS.scalar("expected", at_least=0.0)
"""The expected sum of squared residuals if the dispersion is 1."""
CURVATURE = SCALARS.scalar("curvature", at_least=0.0)
"""The sum of the link's slopes at the scores of the rewards."""
PRIOR_SCALE = SCALARS.scalar("prior_scale", at_least=0.0)
"""The common factor of all prior precisions, selected by the evidence."""
INTERCEPT = SCALARS.scalar("intercept")
"""The mean of the intercept b."""
INTERCEPT_PRECISION = SCALARS.scalar("intercept_precision", at_least=0.0)
"""s, the precision of b after theta is integrated out."""
LAYOUT = StateLayout(SCALARS)
mean_at = LAYOUT.end()
mean_of = LAYOUT.vector("mean")
"""The mean of theta."""
coupling_at = LAYOUT.end()
coupling_of = LAYOUT.vector("coupling")
"""The coupling g of theta with the intercept."""
prior_of = LAYOUT.vector("prior", positive=True)
"""The prior precisions of theta."""
squares_at = LAYOUT.end()
squares_of = LAYOUT.vector("squares", at_least=0.0)
"""The sum of the squares of each feature."""
presence_at = LAYOUT.end()
presence_of = LAYOUT.vector("presence", at_least=0.0)
"""The number of rewards for which each feature was not 0."""
blocks_at = LAYOUT.end()
"""The offset of the blocks of P, the last part of the state."""

FIRST_SCALE = 0.1
"""The prior scale before the evidence selects one. The score of a typical arm then has variance 10."""
LARGEST_SHARE = 3.0
"""The largest ratio, in both directions, of a feature's share of the prior variance of a score to a typical share."""
LEAST_SQUARE = 1e-100
"""Lower limit of the mean square of a feature, which is the square of 1e-50."""
RESOLUTION = 1e-8
"""Lower limit of an arm's variance after one reward, relative to the variance that the diagonal of P gives.

A smaller result would be rounding error and might be negative.
"""


def assumed_noise(link: Link) -> float:
    """The sum of squared residuals that counts as already observed, at dispersion 1.

    For bounded rewards, whose unit is known, it is that of sixteen rewards. Other rewards may be in any unit, so it
    is 0.
    """
    bounded = link.lowest_reward > -math.inf and link.highest_reward < math.inf
    return 16.0 * link.slope(0.0) if bounded else 0.0


def intercept_variance(link: Link) -> float:
    """The prior variance of the intercept.

    It is 1e6 if rewards are unbounded on both sides, because they may have any offset. Other links have a natural
    scale, on which 10 is wide. A larger value would let the first reward move the score to where the slope is almost 0,
    and all later rewards would count too little.
    """
    return 1e6 if link.lowest_reward == -math.inf and link.highest_reward == math.inf else 10.0


def is_valid_posterior(state: Floats, dim: int) -> bool:
    """Whether this array can be a state. For states that come from files."""
    start = blocks_at(dim)
    if state.ndim != 1 or not LAYOUT.is_valid(state[:start], dim) or not np.isfinite(state).all():
        return False
    if state[PRIOR_SCALE] == 0.0 or state[INTERCEPT_PRECISION] == 0.0:
        return False
    return are_valid_blocks(state[start:], dim)


@jittable
def dispersion(state: Floats, noise: float) -> float:
    """The variance of rewards, relative to the variance that the link implies.

    `noise` is the value of `assumed_noise`.
    """
    observed, expected = state[SQUARED_RESIDUALS] + noise, state[EXPECTED] + noise
    return observed / expected if observed > 0.0 and expected > 0.0 else 1.0


@jittable
def update_feature_stats(state: Floats, x: Floats) -> bool:
    """Count a reward and its features.

    Returns whether a feature is present for the first time. Reads the state by offset, because it runs for every reward
    and a slice takes 20 ns.
    """
    dim = x.shape[0]
    squares, presence, new_features = squares_at(dim), presence_at(dim), 0.0
    for i in range(dim):
        present = 1.0 if x[i] != 0.0 else 0.0
        new_features += present if state[presence + i] == 0.0 else 0.0
        state[squares + i] += x[i] * x[i]
        state[presence + i] += present
    state[COUNT] += 1.0
    state[WEIGHT] += 1.0
    return new_features > 0.0


@jittable
def init_feature_prior(state: Floats, x: Floats) -> None:
    """Set the prior of features that are present for the first time.

    The prior is in the units of the first value. P has no correlations of such a feature yet, so only its variance
    changes.
    """
    dim = x.shape[0]
    presence, prior, start = presence_of(state, dim), prior_of(state, dim), blocks_at(dim)
    present = 0.0
    for i in range(dim):
        present += presence[i] / state[WEIGHT]
    scale = state[PRIOR_SCALE] * max(present, 1.0 / LARGEST_SHARE)
    while start < state.shape[0]:
        P = block_matrix(state, start)
        for k in range(P.shape[0]):
            i = int(state[start + 1 + k])
            if x[i] != 0.0 and presence[i] == 1.0:
                prior[i] = max(x[i] * x[i], LEAST_SQUARE) * scale
                P[k, k] = 1.0 / prior[i]
        start = block_end(state, start)


@jittable
def learn_reward(state: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Update the posterior by one reward, and record its residual.

    O(n^2) for a block of n features.
    """
    dim = x.shape[0]
    mean, g = mean_at(dim), coupling_at(dim)
    direction = np.zeros(dim)
    present, variance, diagonal = multiply_blocks(state, x, direction)
    score, remaining = float(state[INTERCEPT]), 1.0  # remaining is 1 - g'x
    for i in range(dim):
        score += x[i] * state[mean + i]
        remaining -= x[i] * state[g + i]
    gain = remaining / state[INTERCEPT_PRECISION]
    variance += remaining * gain
    variance = max(variance, RESOLUTION * (diagonal + 1.0 / state[INTERCEPT_PRECISION]))
    z = proximal_score(score, variance, reward, link)
    pull, slope = proximal_pull(z, score, variance, reward, link), link.slope(z)
    for i in range(dim):
        state[mean + i] += pull * (direction[i] - gain * state[g + i])
    state[INTERCEPT] += pull * gain
    record_residual(state, pull, slope, variance)
    add_curvature(state, x, direction, slope, 1.0 / math.sqrt(max(present, 1.0)))
    if present == 0.0:
        state[INTERCEPT_PRECISION] += slope


@jittable
def multiply_blocks(state: Floats, x: Floats, direction: Floats) -> tuple[float, float, float]:
    """Write Px to `direction`.

    Returns the number of blocks that contain features of x, x'Px, and x'diag(P)x.
    """
    dim, start = x.shape[0], blocks_at(x.shape[0])
    if state[start] == dim:  # one block contains all features
        P = block_matrix(state, start)
        return 1.0, quadratic_form(P, x, 0, direction), diagonal_form(P, x)
    features, product = np.empty(LARGEST_BLOCK), np.empty(LARGEST_BLOCK)
    present, variance, diagonal = 0.0, 0.0, 0.0
    while start < state.shape[0]:
        if gather(state, start, x, features):
            P = block_matrix(state, start)
            variance += quadratic_form(P, features, 0, product)
            scatter(state, start, product, direction)
            diagonal += diagonal_form(P, features)
            present += 1.0
        start = block_end(state, start)
    return present, variance, diagonal


@jittable
def record_residual(state: Floats, pull: float, slope: float, variance: float) -> None:
    """Add the residual of a reward before its update to the sums for the dispersion.

    The residual is computed from the one after the update with the slope there. With the slope at the old score, a
    first reward of 1000 under the log link would look like noise.
    """
    leverage = 1.0 + slope * variance
    residual = min(max(pull * leverage, -1e50), 1e50)
    state[SQUARED_RESIDUALS] += residual * residual
    state[EXPECTED] += min(slope * leverage, 1e100)
    state[CURVATURE] += min(slope, 1e100)


@jittable
def add_curvature(state: Floats, x: Floats, direction: Floats, slope: float, constant: float) -> None:
    """Update P, g and s for the curvature of a reward, block by block. `direction` is Px.

    With one block the update is exact. With m blocks, each block gets the curvature of its own features and of
    `constant` = 1/sqrt(m) in place of 1. The matrix stays positive definite, and the curvature of the intercept alone
    is exact.
    """
    dim, start = x.shape[0], blocks_at(x.shape[0])
    g = coupling_of(state, dim)
    if state[start] == dim:
        state[INTERCEPT_PRECISION] += add_to_block(block_matrix(state, start), x, direction, g, slope, constant)
        return
    features, u, coupling = np.empty(LARGEST_BLOCK), np.empty(LARGEST_BLOCK), np.empty(LARGEST_BLOCK)
    while start < state.shape[0]:
        if gather(state, start, x, features):
            gather(state, start, direction, u)
            gather(state, start, g, coupling)
            added = add_to_block(block_matrix(state, start), features, u, coupling, slope, constant)
            scatter(state, start, coupling, g)
            state[INTERCEPT_PRECISION] += added
        start = block_end(state, start)


@jittable
def add_to_block(P: Floats, x: Floats, u: Floats, g: Floats, slope: float, constant: float) -> float:
    """Update a block for the curvature slope vv' with v = (x, constant).

    Returns the increase of s. u is Px.
    """
    variance, remaining = 0.0, constant
    for k in range(P.shape[0]):
        variance += x[k] * u[k]
        remaining -= x[k] * g[k]
    # Limit the curvature so that the remaining variance is at least `least`. A smaller one would be rounding error.
    least = RESOLUTION * diagonal_form(P, x)
    if least > 1e-300:  # x may be zero
        variance = max(variance, least)
        slope = min(slope, max(1.0 / least - 1.0 / variance, 0.0))
    weight = slope / (1.0 + slope * variance)
    subtract_outer(P, weight, u)
    for k in range(P.shape[0]):
        g[k] += weight * remaining * u[k]
    return weight * remaining * remaining
