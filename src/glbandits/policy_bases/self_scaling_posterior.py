"""A Gaussian posterior of theta and an intercept that finds its own scale: what `Optimist` learns.

A reward moves the mean by the exact step of one observation and adds its curvature. The prior has no settings: its
precisions follow the units of the features, and the size of the noise is estimated. Both become better known with
time. Therefore the prior is rescaled at the 1st, 2nd, 4th, 8th ... reward, under the same observations. Nothing that
was learned before a scale was known is lost.

The covariance is either a full matrix (`maths.covariance`) or a sketch (`maths.sketch`), behind the parts that both
forms share.
"""

import math

import numpy as np

from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.numba_support import jittable
from glbandits.policy import StateLayout
from glbandits.records import Floats

SKETCHED_LAYOUT = StateLayout()
COUNT = SKETCHED_LAYOUT.count("count")
"""Rewards learned."""
LAST, NEXT = SKETCHED_LAYOUT.scalar("last", at_least=0.0), SKETCHED_LAYOUT.scalar("next", at_least=0.0)
"""The count at the last and at the next rescaling of the prior."""
WEIGHT = SKETCHED_LAYOUT.scalar("weight", at_least=0.0)
"""Rewards, discounted by the half-life, as the sums below are."""
SQUARED_RESIDUALS = SKETCHED_LAYOUT.scalar("squared_residuals", at_least=0.0)
EXPECTED = SKETCHED_LAYOUT.scalar("expected", at_least=0.0)
"""The expectation of the squared residuals if the dispersion is 1."""
RESIDUALS = SKETCHED_LAYOUT.scalar("residuals")
OFFSET = SKETCHED_LAYOUT.scalar("offset")
"""1 if the rewards need an intercept, else 0."""
MEAN = OFFSET + 1
mean_of = SKETCHED_LAYOUT.vector("mean", extra=1)
"""The mean of theta, then that of the intercept."""
prior_of = SKETCHED_LAYOUT.vector("prior", extra=1, positive=True)
"""The precisions of the prior. All are positive."""
squares_at = SKETCHED_LAYOUT.end()
squares_of = SKETCHED_LAYOUT.vector("squares")
"""The sum of the squares of each feature."""
presence_at = SKETCHED_LAYOUT.end()
presence_of = SKETCHED_LAYOUT.vector("presence", at_least=0.0)
"""The number of rewards for which each feature was not 0."""
tail_at = SKETCHED_LAYOUT.end()
"""The offset of what follows: the full covariance or the sketch."""

WHOLE_LAYOUT = StateLayout(SKETCHED_LAYOUT)
covariance_of = WHOLE_LAYOUT.matrix("covariance", extra=1)
"""P, if it is a full matrix."""

CLOSED, OPEN = 0.01, 100.0
"""Prior variance of the intercept: close to none, until the residuals call for one."""
SURPRISING = 12.0
"""An intercept is needed if the squared sum of residuals, in units of its variance, exceeds this: 3.5 deviations."""
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
def init_feature_prior(state: Floats, x: Floats, diagonal: int, stride: int) -> None:
    """Set the prior of features that are present for the first time, in their units.

    Nothing was observed along such a feature i, so its row of the covariance is 0 except for the variance, which is
    state[diagonal + i * stride].
    """
    dim = x.shape[0]
    presence, prior = presence_of(state, dim), prior_of(state, dim)
    present = 0.0
    for i in range(dim):
        present += presence[i] / state[WEIGHT]
    for i in range(dim):
        if x[i] != 0.0 and presence[i] == 1.0:
            prior[i] = max(x[i] * x[i], LEAST_SQUARE) * max(present, 1.0 / LARGEST_SHARE)
            state[diagonal + i * stride] = 1.0 / prior[i]


@jittable
def rescaled_prior(state: Floats, dim: int) -> Floats:
    """Precisions under which the score of a typical arm has variance 1.

    Each feature has a share of that variance: its share of the squared length of the features, limited to between a
    third of and three times a typical feature's. So multiplying all features by a number changes nothing, a feature in
    much larger or smaller units is corrected, and a slightly larger feature counts slightly more. A feature that was
    never seen counts as a typical one.
    """
    squares, presence = squares_of(state, dim), presence_of(state, dim)
    prior, logs, seen = np.empty(dim + 1), 0.0, 0
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
    if state[RESIDUALS] * state[RESIDUALS] > SURPRISING * state[SQUARED_RESIDUALS]:
        state[OFFSET] = 1.0
    prior[dim] = 1.0 / (OPEN if state[OFFSET] == 1.0 else CLOSED)
    return prior


@jittable
def discount_sums(state: Floats, dim: int, half_life: float) -> float:
    """Discount the sums of a state since the last rescaling, and set the count of the next one. Returns the factor."""
    fade = math.exp(-math.log(2.0) * (state[COUNT] - state[LAST]) / half_life)
    squares, presence = squares_of(state, dim), presence_of(state, dim)
    for i in range(dim):
        factor = fade if presence[i] > FORGOTTEN else 0.0
        squares[i] *= factor
        presence[i] *= factor
    state[WEIGHT] *= fade
    # Early residuals contain what was not learned yet: those of the first half of all rewards count a quarter.
    early = state[LAST] / state[COUNT]
    state[SQUARED_RESIDUALS] *= fade * early * early
    state[EXPECTED] *= fade * early * early
    state[RESIDUALS] *= math.sqrt(fade) * early * early  # its variance is discounted by the square
    state[LAST] = state[COUNT]
    state[NEXT] = state[COUNT] + min(state[COUNT], max(1.0, half_life / 8.0))
    return fade


@jittable
def move_mean(
    state: Floats,
    x: Floats,
    reward: float,
    direction: Floats,
    variance: float,
    diagonal: float,
    link: LinkFunctions,
) -> tuple[float, float]:
    """Move the mean along the direction Pv by the exact step of one reward, and record its residual.

    Returns the curvature of the reward, and the weight with which the outer product of Pv is subtracted from P.
    `variance` is v'Pv, and `diagonal` what it would be if no two coordinates were correlated. Reads the mean by offset,
    because a slice takes 20 ns.
    """
    dim = x.shape[0]
    score = float(state[MEAN + dim])
    for i in range(dim):
        score += x[i] * state[MEAN + i]
    least = RESOLUTION * diagonal
    variance = max(variance, least)
    z = proximal_score(score, variance, reward, link)
    pull, slope = proximal_pull(z, score, variance, reward, link), link.slope(z)
    for i in range(dim + 1):
        state[MEAN + i] += pull * direction[i]
    # The residual before the step, computed from the residual after it with the slope at z. With the slope at the old
    # score, a first reward of 1000 under the log link would look like noise.
    leverage = 1.0 + slope * variance
    residual = min(max(pull * leverage, -1e50), 1e50)
    state[RESIDUALS] += residual
    state[SQUARED_RESIDUALS] += residual * residual
    state[EXPECTED] += min(slope * leverage, 1e100)
    # Limit the curvature so that the remaining variance is not rounding error: it stays at least `least`.
    slope = min(slope, max(1.0 / least - 1.0 / variance, 0.0))
    return slope, slope / (1.0 + slope * variance)
