"""A Gaussian posterior of theta and an intercept that finds its own scale: what `Optimist` learns.

A reward moves the mean by the exact step of one observation and adds its curvature. The prior has no settings: its
precisions follow the units of the features, the evidence chooses one scale for all of them, and the size of the noise
is estimated. All become better known with time. Therefore the prior is replaced at the 1st, 2nd, 4th, 8th ... reward,
under the same observations. Nothing that was learned before a scale was known is lost.

The precision matrix of theta and the intercept b is [[D, c], [c', e]]. The state holds P = D^-1 in blocks
(`maths.feature_blocks`), g = P c and s = e - c'g, the precision of b after theta is integrated out. The variance of
the score x'theta + b is then x'Px + (1 - g'x)^2 / s.
"""

import math

import numpy as np

from glbandits.maths.feature_blocks import (
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
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.numba_support import jittable
from glbandits.policy import StateLayout
from glbandits.records import Floats

SCALARS = StateLayout()
"""What the posterior keeps whatever the number of features; a state begins with it."""
COUNT = SCALARS.count("count")
"""Rewards learned."""
LAST, NEXT = SCALARS.scalar("last", at_least=0.0), SCALARS.scalar("next", at_least=0.0)
"""The count at the last and at the next replacement of the prior."""
WEIGHT = SCALARS.scalar("weight", at_least=0.0)
"""Rewards, discounted by the half-life, as the sums below are."""
SQUARED_RESIDUALS = SCALARS.scalar("squared_residuals", at_least=0.0)
EXPECTED = SCALARS.scalar("expected", at_least=0.0)
"""The expectation of the squared residuals if the dispersion is 1."""
CURVATURE = SCALARS.scalar("curvature", at_least=0.0)
"""The sum of the slopes of the link at the rewards."""
PRIOR_SCALE = SCALARS.scalar("prior_scale", at_least=0.0)
"""The factor of all prior precisions that the evidence chose."""
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
"""g."""
prior_of = LAYOUT.vector("prior", positive=True)
"""The prior precisions of theta."""
squares_at = LAYOUT.end()
squares_of = LAYOUT.vector("squares", at_least=0.0)
"""The sum of the squares of each feature."""
presence_at = LAYOUT.end()
presence_of = LAYOUT.vector("presence", at_least=0.0)
"""The number of rewards for which each feature was not 0."""
blocks_at = LAYOUT.end()
"""The offset of the blocks of P, which follow."""

FIRST_SCALE = 0.1
"""The prior scale before the evidence chooses one: the score of a typical arm has the variance 10."""
LARGEST_SHARE = 3.0
"""The largest ratio, either way, between a feature's share of the prior variance of the score and a typical share."""
LEAST_SQUARE = 1e-100
"""Mean squares below this count as this: a feature below 1e-50 counts as one of that size."""
RESOLUTION = 1e-8
"""The least share of an arm's variance, computed from the diagonal, that one reward may leave: less would be rounding,
and might be negative."""


def assumed_noise(link: Link) -> float:
    """The variance of rewards that counts as already observed, at dispersion 1.

    Bounded rewards have a known unit: it is the variance of sixteen of them. Other rewards may be in any unit: none.
    """
    bounded = link.lowest_reward > -math.inf and link.highest_reward < math.inf
    return 16.0 * link.slope(0.0) if bounded else 0.0


def intercept_variance(link: Link) -> float:
    """The prior variance of the intercept: vague if rewards may have any offset in units of their noise.

    Other links have a scale of their own, on which 10 is wide. With more, the first reward moves the score to where
    the slope is close to 0, and all later ones count too little.
    """
    return 1e6 if link.lowest_reward == -math.inf and link.highest_reward == math.inf else 10.0


def is_valid_posterior(state: Floats, dim: int) -> bool:
    """Whether this array can be a state: asked before a loaded one is trusted."""
    start = blocks_at(dim)
    if state.ndim != 1 or not LAYOUT.is_valid(state[:start], dim) or not np.isfinite(state).all():
        return False
    if state[PRIOR_SCALE] == 0.0 or state[INTERCEPT_PRECISION] == 0.0:
        return False
    return are_valid_blocks(state[start:], dim)


@jittable
def dispersion(state: Floats, noise: float) -> float:
    """The variance of a reward relative to the link's, with `noise` counted as observed at dispersion 1."""
    observed, expected = state[SQUARED_RESIDUALS] + noise, state[EXPECTED] + noise
    return observed / expected if observed > 0.0 and expected > 0.0 else 1.0


@jittable
def update_feature_stats(state: Floats, x: Floats) -> bool:
    """Count a reward and its features. Returns whether a feature is present for the first time.

    Runs for every reward, so it reads the state by offset: a slice takes 20 ns.
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
    """Set the prior of features that are present for the first time, in their units.

    Nothing was observed along such a feature, so its row of P is 0 except for the variance.
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
    """Move the mean by the exact step of one reward, record its residual, and add its curvature. O(n^2) a block."""
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
    """Write Px. Returns the number of blocks with features of x, x'Px, and what that would be without correlations."""
    dim, start = x.shape[0], blocks_at(x.shape[0])
    if state[start] == dim:  # one block: its features are those of x
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
    """Add the residual before a step to the sums, computed from the residual after it with the slope there.

    With the slope at the old score, a first reward of 1000 under the log link would look like noise.
    """
    leverage = 1.0 + slope * variance
    residual = min(max(pull * leverage, -1e50), 1e50)
    state[SQUARED_RESIDUALS] += residual * residual
    state[EXPECTED] += min(slope * leverage, 1e100)
    state[CURVATURE] += min(slope, 1e100)


@jittable
def add_curvature(state: Floats, x: Floats, direction: Floats, slope: float, constant: float) -> None:
    """Add the curvature of a reward to P, g and s, block by block; `direction` is Px.

    With one block that is exact. With m blocks each gets the curvature of its own features with the constant 1/sqrt(m):
    the matrix stays positive definite, and that of the intercept alone is exact.
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
    """Add the curvature slope vv' of v = (x, constant), where u = Px. Returns what it adds to the precision s."""
    variance, remaining = 0.0, constant
    for k in range(P.shape[0]):
        variance += x[k] * u[k]
        remaining -= x[k] * g[k]
    # Limit the curvature so that the remaining variance is not rounding error: it stays at least `least`.
    least = RESOLUTION * diagonal_form(P, x)
    if least > 1e-300:  # x may be zero
        variance = max(variance, least)
        slope = min(slope, max(1.0 / least - 1.0 / variance, 0.0))
    weight = slope / (1.0 + slope * variance)
    subtract_outer(P, weight, u)
    for k in range(P.shape[0]):
        g[k] += weight * remaining * u[k]
    return weight * remaining * remaining
