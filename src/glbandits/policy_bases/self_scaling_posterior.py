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

from glbandits.maths.cholesky import factorise, forward
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
from glbandits.maths.inverse import invert
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.numba_support import jittable
from glbandits.policy import StateLayout
from glbandits.records import Floats

LAYOUT = StateLayout()
COUNT = LAYOUT.count("count")
"""Rewards learned."""
LAST, NEXT = LAYOUT.scalar("last", at_least=0.0), LAYOUT.scalar("next", at_least=0.0)
"""The count at the last and at the next replacement of the prior."""
WEIGHT = LAYOUT.scalar("weight", at_least=0.0)
"""Rewards, discounted by the half-life, as the sums below are."""
SQUARED_RESIDUALS = LAYOUT.scalar("squared_residuals", at_least=0.0)
EXPECTED = LAYOUT.scalar("expected", at_least=0.0)
"""The expectation of the squared residuals if the dispersion is 1."""
CURVATURE = LAYOUT.scalar("curvature", at_least=0.0)
"""The sum of the slopes of the link at the rewards."""
PRIOR_SCALE = LAYOUT.scalar("prior_scale", at_least=0.0)
"""The factor of all prior precisions that the evidence chose."""
INTERCEPT = LAYOUT.scalar("intercept")
"""The mean of the intercept b."""
INTERCEPT_PRECISION = LAYOUT.scalar("intercept_precision", at_least=0.0)
"""s, the precision of b after theta is integrated out."""
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
SCALES = (1.0, 0.3, 0.1, 0.03)
"""The prior scales among which the evidence chooses. Larger ones get stuck, smaller ones explore too much."""
EVIDENCE_FROM = 64
"""Rewards from which on the evidence counts."""
LARGEST_SHARE = 3.0
"""The largest ratio, either way, between a feature's share of the prior variance of the score and a typical share."""
LEAST_SQUARE = 1e-100
"""Mean squares below this count as this: a feature below 1e-50 counts as one of that size."""
RESOLUTION = 1e-8
"""The least share of an arm's variance, computed from the diagonal, that one reward may leave: less would be rounding,
and might be negative."""
FORGOTTEN = 1e-100
"""A feature whose discounted presence is at most this counts as never seen."""


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
    if dim <= LARGEST_BLOCK:  # one block: its features are those of x
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
    if dim <= LARGEST_BLOCK:
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


@jittable
def rescaled_prior(state: Floats, dim: int) -> Floats:
    """Precisions under which the score of a typical arm has variance 1, apart from the intercept.

    Each feature has a share of that variance: its share of the squared length of the features, limited to between a
    third of and three times a typical feature's. So multiplying all features by a number changes nothing, a feature in
    much larger or smaller units is corrected, and a slightly larger feature counts slightly more. A feature that was
    never seen counts as a typical one.
    """
    squares, presence = squares_of(state, dim), presence_of(state, dim)
    prior, logs, seen = np.empty(dim), 0.0, 0
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
            total += share * presence[i] / state[WEIGHT]
            prior[i] = typical if presence[i] == 0.0 else prior[i] / share
        for i in range(dim):
            prior[i] *= max(total, 1.0 / LARGEST_SHARE)  # rows of zeros must not make it vanish
    return prior


@jittable
def discount_sums(state: Floats, dim: int, half_life: float) -> float:
    """Discount the sums of a state since the last call, and set the count of the next one. Returns the factor."""
    fade = math.exp(-math.log(2.0) * (state[COUNT] - state[LAST]) / half_life)
    squares, presence = squares_of(state, dim), presence_of(state, dim)
    for i in range(dim):
        factor = fade if presence[i] > FORGOTTEN else 0.0
        squares[i] *= factor
        presence[i] *= factor
    state[WEIGHT] *= fade
    state[CURVATURE] *= fade
    # Early residuals contain what was not learned yet: those of the first half of all rewards count a quarter.
    early = state[LAST] / state[COUNT]
    state[SQUARED_RESIDUALS] *= fade * early * early
    state[EXPECTED] *= fade * early * early
    state[LAST] = state[COUNT]
    state[NEXT] = state[COUNT] + min(state[COUNT], max(1.0, half_life / 8.0))
    return fade


@jittable
def replace_prior(state: Floats, dim: int, half_life: float, noise: float, intercept_precision: float) -> None:
    """Put the prior in the units known by now, at the scale that the evidence prefers, and forget by the half-life.

    The prior mean is 0. Therefore everything follows from the change of D beyond the discount, a diagonal matrix of the
    size of the priors. Sums of all observations, such as e, would lose what is known of the intercept to rounding if
    curvatures are large. O(n^3) a block.
    """
    new_prior, size = rescaled_prior(state, dim), dispersion(state, noise)
    fade = discount_sums(state, dim, half_life)
    mean, g, prior, b = mean_of(state, dim), coupling_of(state, dim), prior_of(state, dim), state[INTERCEPT]
    for i in range(dim):
        mean[i] += g[i] * b  # the mean of theta if the intercept is 0
    state[INTERCEPT] = fade * state[INTERCEPT_PRECISION] * b  # s b
    state[INTERCEPT_PRECISION] = fade * state[INTERCEPT_PRECISION] + (1.0 - fade) * intercept_precision
    invert_blocks(state, dim, fade)
    change, scale = np.empty(dim), float(state[PRIOR_SCALE])
    if state[COUNT] >= EVIDENCE_FROM:
        best = -np.inf
        for candidate in SCALES:
            for i in range(dim):
                change[i] = candidate * new_prior[i] - fade * prior[i]
            evidence = log_evidence(state, change, intercept_precision, size) + 0.5 * dim * math.log(candidate)
            if evidence > best:
                best, scale = evidence, candidate
    state[PRIOR_SCALE] = scale
    for i in range(dim):
        change[i] = scale * new_prior[i] - fade * prior[i]
        prior[i] = scale * new_prior[i]
    change_prior(state, change, intercept_precision)


@jittable
def invert_blocks(state: Floats, dim: int, factor: float) -> None:
    """Replace P by D times a factor."""
    start = blocks_at(dim)
    while start < state.shape[0]:
        D = block_matrix(state, start)
        invert(D)
        for k in range(D.shape[0]):
            for m in range(D.shape[0]):
                D[k, m] *= factor
        start = block_end(state, start)


@jittable
def log_evidence(state: Floats, change: Floats, intercept_precision: float, dispersion: float) -> float:
    """The logarithm of the evidence if this is added to D, by Laplace's approximation. O(n^3).

    Leaves out the logarithms of the prior precisions, and what does not depend on the change. The state is as
    `change_prior` takes it.
    """
    dim = change.shape[0]
    mean, g, start = mean_of(state, dim), coupling_of(state, dim), blocks_at(dim)
    total, fitted, s, sb = 0.0, 0.0, float(state[INTERCEPT_PRECISION]), float(state[INTERCEPT])
    while start < state.shape[0]:
        n = int(state[start])
        R, y, z = block_matrix(state, start).copy(), np.empty(n), np.empty(n)
        for k in range(n):
            i = int(state[start + 1 + k])
            R[k, k] += change[i]
            y[k], z[k] = change[i] * mean[i], change[i] * g[i]
            fitted -= y[k] * mean[i]
            s += z[k] * g[i]
            sb += z[k] * mean[i]
        factorise(R, 1e-300, z)
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


@jittable
def change_prior(state: Floats, change: Floats, intercept_precision: float) -> None:
    """Add a diagonal matrix to D, and compute P, g, s and both means.

    The state must hold D in its blocks, s b as the intercept, and the mean of theta if the intercept is 0.
    """
    dim = change.shape[0]
    mean, g, start = mean_of(state, dim), coupling_of(state, dim), blocks_at(dim)
    s, sb = float(state[INTERCEPT_PRECISION]), float(state[INTERCEPT])
    side = min(dim, LARGEST_BLOCK)
    y, z = np.empty(side), np.empty(side)
    while start < state.shape[0]:
        n, P = int(state[start]), block_matrix(state, start)
        for k in range(n):
            i = int(state[start + 1 + k])
            P[k, k] += change[i]
            y[k], z[k] = change[i] * mean[i], change[i] * g[i]
        invert(P)
        for k in range(n):
            i = int(state[start + 1 + k])
            for m in range(n):
                mean[i] -= P[k, m] * y[m]
                g[i] -= P[k, m] * z[m]
            s += z[k] * g[i]
            sb += z[k] * mean[i]
        start = block_end(state, start)
    state[INTERCEPT_PRECISION] = max(s, intercept_precision)
    state[INTERCEPT] = sb / state[INTERCEPT_PRECISION]
    for i in range(dim):
        mean[i] -= g[i] * state[INTERCEPT]
