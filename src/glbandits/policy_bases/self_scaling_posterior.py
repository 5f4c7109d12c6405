"""A Gaussian belief about theta and an intercept that finds its own scale: what `Optimist` learns.

Rewards move the mean by the exact step of one observation, and add their curvature. What is special is the prior. It
asks for nothing: its precisions are put in the units of the features that were seen, and the size of the noise is
measured. As both become better known, the prior is put anew under the same observations, at the 1st, 2nd, 4th, 8th ...
reward, so that what was learned before a scale was known is not lost.
"""

import math

import numpy as np

from glbandits.numba_support import borrowed, jittable
from glbandits.maths.covariance import renew, shrink, spread
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.sketch import (
    Sketch,
    absorb_sketched,
    as_sketch,
    make_room,
    renew_sketched,
    sketch_size,
    spread_sketched,
)
from glbandits.maths.vectors import add_scaled
from glbandits.records import Floats

COUNT, LAST, NEXT, WEIGHT, SQUARED_RESIDUALS, EXPECTED, RESIDUALS, OFFSET = 0, 1, 2, 3, 4, 5, 6, 7
"""Rewards learned; that number at the last and at the next renewal; then sums in which the past has faded: rewards,
squared residuals, what these should be if the noise were 1, residuals; at the end whether an intercept is needed."""
HEADER = 8

CLOSED, OPEN = 0.01, 100.0
"""Prior variance of the intercept: as good as none, until the residuals ask for one."""
SURPRISING = 12.0
"""The squared sum of residuals, in units of its variance, that asks for it: three and a half standard deviations."""
LARGEST_SHARE = 3.0
"""How far a feature's share in the prior variance of the score may be from that of a typical feature, either way."""
LEAST_SQUARE = 1e-100
"""Of a feature's size: a feature below 1e-50 counts as one of that size."""
RESOLUTION = 1e-8
"""The least share of an arm's variance, as the diagonal gives it, that one reward may leave: what is smaller would be
rounding, and might be negative."""
FORGOTTEN = 1e-100
"""A feature that was present less often than this, with the past faded, was never seen."""


def assumed_noise(link: Link) -> float:
    """How much variance of rewards is taken as seen, at the size that the link says.

    Rewards within bounds have a known unit: sixteen of them are assumed. Others may be in any unit.
    """
    bounded = link.lowest_reward > -math.inf and link.highest_reward < math.inf
    return 16.0 * link.slope(0.0) if bounded else 0.0


def belief_size(dim: int, rank: int) -> int:
    """How many numbers the belief takes: of the whole covariance for rank 0."""
    n = dim + 1
    return HEADER + 2 * n + 2 * dim + (n * n if rank == 0 else sketch_size(rank, n))


def first_belief(dim: int, rank: int) -> Floats:
    """Nothing known: any prior will do, because the first reward brings one."""
    state = np.zeros(belief_size(dim, rank))
    prior_of(state, dim)[:] = 1.0
    if rank == 0:
        covariance_of(state, dim)[:] = np.eye(dim + 1)
    else:
        sketch_of(state, dim, rank).variances[:] = 1.0
    return state


def belief_fits(state: Floats, dim: int, rank: int) -> bool:
    """Whether an array can be such a belief."""
    if state.shape != (belief_size(dim, rank),) or not np.isfinite(state).all():
        return False
    variances = np.diagonal(covariance_of(state, dim)) if rank == 0 else sketch_of(state, dim, rank).variances
    used = 0.0 if rank == 0 else float(sketch_of(state, dim, rank).used[0])
    counts = float(state[COUNT]).is_integer() and used.is_integer() and 0 <= used <= 2 * rank
    sums = state[:RESIDUALS].min() >= 0.0 and presence_of(state, dim).min() >= 0.0 and state[OFFSET] in (0.0, 1.0)
    return bool(counts and sums and (prior_of(state, dim) > 0.0).all() and (variances > 0.0).all())


@jittable
def mean_of(state: Floats, dim: int) -> Floats:
    """The mean of theta, and of the intercept at its end."""
    return state[HEADER : HEADER + dim + 1]


@jittable
def prior_of(state: Floats, dim: int) -> Floats:
    """The precisions of the prior."""
    return state[HEADER + dim + 1 : HEADER + 2 * dim + 2]


@jittable
def squares_of(state: Floats, dim: int) -> Floats:
    """The sum of the squares of each feature."""
    return state[HEADER + 2 * dim + 2 : HEADER + 3 * dim + 2]


@jittable
def presence_of(state: Floats, dim: int) -> Floats:
    """How often each feature was not 0."""
    return state[HEADER + 3 * dim + 2 : HEADER + 4 * dim + 2]


@jittable
def covariance_of(state: Floats, dim: int) -> Floats:
    """P, if it is kept whole."""
    start, n = HEADER + 4 * dim + 2, dim + 1
    return state[start : start + n * n].reshape(n, n)


@jittable
def sketch_of(state: Floats, dim: int, rank: int) -> Sketch:
    """P, if it is kept as a sketch."""
    return as_sketch(state[HEADER + 4 * dim + 2 :], rank, dim + 1)


@jittable
def dispersion(state: Floats, noise: float) -> float:
    """The variance of a reward as a multiple of what the link says: a ratio of sums, as if noise had been seen at 1."""
    seen, expected = state[SQUARED_RESIDUALS] + noise, state[EXPECTED] + noise
    return seen / expected if seen > 0.0 and expected > 0.0 else 1.0


@jittable
def observe(state: Floats, x: Floats, reward: float, link: LinkFunctions, rank: int, half_life: float) -> None:
    """Take in one reward. O(d^2), or O(m d) for a sketch, and more at the renewals."""
    here, dim = borrowed(state), x.shape[0]
    notice(here, x, rank)
    if here[COUNT] >= here[NEXT]:
        renew_belief(here, dim, rank, half_life)
    if rank == 0:
        observe_whole(here, x, reward, link)
    else:
        observe_sketched(here, x, reward, link, rank)


@jittable
def observe_whole(state: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """The step of one reward, with the covariance kept whole."""
    dim = x.shape[0]
    P, direction = covariance_of(state, dim), np.empty(dim + 1)
    spread(P, x, direction)
    diagonal = float(P[dim, dim])
    for i in range(dim):
        diagonal += x[i] * x[i] * P[i, i]
    _, shrinkage = step(state, x, reward, link, direction, diagonal)
    shrink(P, shrinkage, direction)


@jittable
def observe_sketched(state: Floats, x: Floats, reward: float, link: LinkFunctions, rank: int) -> None:
    """The step of one reward, with a sketch of the covariance."""
    dim = x.shape[0]
    sketch, direction = sketch_of(state, dim, rank), np.empty(dim + 1)
    make_room(sketch, prior_of(state, dim))
    spread_sketched(sketch, x, direction)
    diagonal = float(sketch.variances[dim])
    for i in range(dim):
        diagonal += x[i] * x[i] * sketch.variances[i]
    slope, shrinkage = step(state, x, reward, link, direction, diagonal)
    absorb_sketched(sketch, slope, x, shrinkage, direction)


@jittable
def step(
    state: Floats, x: Floats, reward: float, link: LinkFunctions, direction: Floats, diagonal: float
) -> tuple[float, float]:
    """Move the mean along Pv by the exact step of one reward, and take note of its residual.

    Gives the curvature of the reward, and how much of the outer product of Pv the covariance loses by it. `diagonal` is
    the variance of the score as it would be if no two coordinates were correlated.
    """
    dim = x.shape[0]
    mean = mean_of(state, dim)
    score, variance = float(mean[dim]), float(direction[dim])
    for i in range(dim):
        score += x[i] * mean[i]
        variance += x[i] * direction[i]
    least = RESOLUTION * diagonal
    variance = max(variance, least)
    z = proximal_score(score, variance, reward, link)
    pull, slope = proximal_pull(z, score, variance, reward, link), link.slope(z)
    add_scaled(mean, pull, direction)
    # The residual before the step, as the slope at z gives it from the one after: at the score itself a first reward of
    # 1000 under the log link would look like noise.
    leverage = 1.0 + slope * variance
    residual = min(max(pull * leverage, -1e50), 1e50)
    state[RESIDUALS] += residual
    state[SQUARED_RESIDUALS] += residual * residual
    state[EXPECTED] += min(slope * leverage, 1e100)
    # No reward may say so much that what is left of the variance is rounding: after it, variance >= least.
    slope = min(slope, max(1.0 / least - 1.0 / variance, 0.0))
    return slope, slope / (1.0 + slope * variance)


@jittable
def notice(state: Floats, x: Floats, rank: int) -> None:
    """Count a reward and its features; a feature that was never seen before brings its own scale."""
    dim = x.shape[0]
    squares, presence = squares_of(state, dim), presence_of(state, dim)
    news = 0.0
    for i in range(dim):
        present = 1.0 if x[i] != 0.0 else 0.0
        news += present if presence[i] == 0.0 else 0.0
        squares[i] += x[i] * x[i]
        presence[i] += present
    state[COUNT] += 1.0
    state[WEIGHT] += 1.0
    if news > 0.0:
        welcome(state, x, rank)


@jittable
def welcome(state: Floats, x: Floats, rank: int) -> None:
    """Put the prior of features that are seen for the first time in their units.

    Nothing was observed along such a feature, so that its row of the covariance is 0 but for the prior.
    """
    dim = x.shape[0]
    presence, prior = presence_of(state, dim), prior_of(state, dim)
    present = 0.0
    for i in range(dim):
        present += presence[i] / state[WEIGHT]
    for i in range(dim):
        if x[i] != 0.0 and presence[i] == 1.0:
            prior[i] = max(x[i] * x[i], LEAST_SQUARE) * max(present, 1.0 / LARGEST_SHARE)
            if rank == 0:
                covariance_of(state, dim)[i, i] = 1.0 / prior[i]
            else:
                sketch_of(state, dim, rank).variances[i] = 1.0 / prior[i]


@jittable
def renew_belief(state: Floats, dim: int, rank: int, half_life: float) -> None:
    """Put the prior in the units that are known by now, let the past fade, and say when to do so again."""
    fade = math.exp(-math.log(2.0) * (state[COUNT] - state[LAST]) / half_life)
    if state[RESIDUALS] * state[RESIDUALS] > SURPRISING * state[SQUARED_RESIDUALS]:
        state[OFFSET] = 1.0
    prior = scaled_prior(state, dim)
    if rank == 0:
        renew(covariance_of(state, dim), mean_of(state, dim), prior_of(state, dim), prior, fade)
    else:
        renew_sketched(sketch_of(state, dim, rank), mean_of(state, dim), prior_of(state, dim), prior, fade)
    squares, presence = squares_of(state, dim), presence_of(state, dim)
    for i in range(dim):
        seen = fade if presence[i] > FORGOTTEN else 0.0
        squares[i] *= seen
        presence[i] *= seen
    state[WEIGHT] *= fade
    # Residuals from before anything was known are not noise: those of the first half of all rewards count a quarter.
    early = state[LAST] / state[COUNT]
    state[SQUARED_RESIDUALS] *= fade * early * early
    state[EXPECTED] *= fade * early * early
    state[RESIDUALS] *= math.sqrt(fade) * early * early  # its variance fades by the square
    state[LAST] = state[COUNT]
    state[NEXT] = state[COUNT] + min(state[COUNT], max(1.0, half_life / 8.0))


@jittable
def scaled_prior(state: Floats, dim: int) -> Floats:
    """Precisions under which the score of a typical arm has variance 1.

    Each feature has a share of that variance: its share of the squared length of the features, but not less than a
    third or more than three times that of a typical feature. So all may be multiplied by a number and nothing changes,
    a feature in much larger or smaller units is put right, and what is a little longer counts a little more. A feature
    that was never seen is taken for a typical one.
    """
    squares, presence, prior = squares_of(state, dim), presence_of(state, dim), np.ones(dim + 1)
    logs, seen = 0.0, 0
    for i in range(dim):
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
    prior[dim] = 1.0 / (OPEN if state[OFFSET] == 1.0 else CLOSED)
    return prior
