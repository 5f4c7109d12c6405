"""Limits of features and rewards far outside everything seen, so that one of them cannot ruin what was learned.

Features: the unit of a feature is its root mean square. A value above OUTLYING units counts as one unit with the same
sign, when choosing and when learning. If the square of a smaller value is above the sum of all squares of its feature
so far, its reward is learned with a smaller weight, so that it adds as much as that sum. If most values of a feature do
not fit its unit, the unit was wrong: the feature takes the present value as its unit, and its coefficient is learned
again.

Rewards: if the squared residual of a reward is far above the sum of all squared residuals so far, the reward counts as
one with a residual of typical size. The sum then doubles, or grows more if there were many outliers. So a few absurd
rewards change little, but rewards that are often of this size are soon learned as they are. Rewards between two bounds
are never limited.
"""

import math

from glbandits.maths.links import LinkFunctions
from glbandits.numba_support import jittable
from glbandits.policy_bases.posterior_state import (
    COUNT,
    CURVATURE,
    EXPECTED,
    OUTLIERS,
    OUTLYING_REWARDS,
    SQUARED_RESIDUALS,
    WEIGHT,
    limits_at,
    presence_at,
    squares_at,
    votes_at,
)
from glbandits.records import Floats

OUTLYING = 1e3
"""A value of a feature above so many units is an outlier."""
FEW_VALUES = 16.0
"""With fewer values than this, the unit is uncertain, and larger values are accepted."""
ORDINARY = 64.0
"""A value whose square is at most so many squared units has full weight."""
LEAST_SHARE = 1e-8
"""A value below this share of the limit, which is 1e-5 units, is too small for the unit. It is learned as it is."""
LEAST_SQUARE = 1e-100
"""Lower limit of the mean square of a feature, which is the square of 1e-50."""
NO_LIMIT = 1e300
"""The limit of a feature that was never seen."""
LARGEST_RATIO = 10.0
"""A squared residual above so many times the sum of all others is an outlier."""
FEW_REWARDS = 32.0
"""With fewer rewards than this, the sum is uncertain, and larger residuals are accepted."""
OFTEN = 100.0
"""If one reward in so many is an outlier, each quadruples the sum of squared residuals."""
FIRST_LIMITED = 4.0
"""The number of rewards before the first that is limited."""


@jittable
def unit_of(square: float, count: float) -> float:
    """The unit of a feature, from the sum of its squares and the number of rewards for which it was not 0."""
    return math.sqrt(max(square / count, LEAST_SQUARE))


@jittable
def limit_of(square: float, count: float) -> float:
    """The largest absolute value of a feature that is not an outlier."""
    shortage = FEW_VALUES / count
    return OUTLYING * (1.0 + shortage * shortage) * unit_of(square, count)


@jittable
def limit_features(state: Floats, x: Floats, values: Floats) -> bool:
    """Copy x to `values`, with outliers limited. Returns whether there are some. Changes no state."""
    dim, found = x.shape[0], False
    squares, presence, limits = squares_at(dim), presence_at(dim), limits_at(dim)
    for i in range(dim):
        values[i] = x[i]
        if abs(x[i]) > state[limits + i]:
            values[i] = math.copysign(unit_of(state[squares + i], state[presence + i]), x[i])
            found = True
    return found


@jittable
def count_features(state: Floats, x: Floats, values: Floats) -> tuple[bool, float]:
    """Count a reward and its features, which are written to `values` with outliers limited.

    Returns whether a feature needs a prior, because it is present for the first time or has another unit from now on;
    and the weight of the reward. Reads the state by offset, because it runs for every reward and a slice takes 20 ns.
    """
    dim = x.shape[0]
    squares, presence, limits, is_unusual = squares_at(dim), presence_at(dim), limits_at(dim), False
    for i in range(dim):
        value, size, limit = x[i], abs(x[i]), state[limits + i]
        is_unusual |= (
            (value * value > state[squares + i]) | (size > limit) | ((size < limit * LEAST_SHARE) & (size > 0.0))
        )
        values[i] = value
    state[COUNT] += 1.0
    state[WEIGHT] += 1.0
    if is_unusual:
        return count_unusual_features(state, values)
    for i in range(dim):
        state[squares + i] += values[i] * values[i]
        state[presence + i] += 1.0 if values[i] != 0.0 else 0.0
    return False, 1.0


@jittable
def count_unusual_features(state: Floats, values: Floats) -> tuple[bool, float]:
    """Count the features of a reward as `count_features`, if some have unusual values."""
    dim, needs_prior, weight = values.shape[0], False, 1.0
    squares, presence, limits, votes = squares_at(dim), presence_at(dim), limits_at(dim), votes_at(dim)
    for i in range(dim):
        if values[i] == 0.0:
            continue
        value, square, vote = judge_value(values[i], state[squares + i], state[presence + i], state[limits + i])
        state[votes + i] += vote
        if abs(state[votes + i]) > 0.5 * (state[presence + i] + 1.0):  # the unit was wrong
            state[votes + i] = state[presence + i] = state[squares + i] = 0.0
            value = values[i]
            square = value * value
        elif vote > 0.0:
            state[OUTLIERS] += 1.0
        else:
            weight = min(weight, square / (value * value) if square > 0.0 else 1.0)
        needs_prior |= state[presence + i] == 0.0
        values[i] = value
        state[squares + i] += square
        state[presence + i] += 1.0
    return needs_prior, weight


@jittable
def judge_value(x: float, squares: float, count: float, limit: float) -> tuple[float, float, float]:
    """Judge a value of a feature by the sum of its squares, the number of its values so far, and its limit.

    Returns the value and its square, both limited, and a vote: 1.0 if the value is too large for the unit, -1.0 if it
    is too small, else 0.0.
    """
    if count == 0.0:
        return x, x * x, 0.0
    if abs(x) > limit:
        unit = math.copysign(unit_of(squares, count), x)
        return unit, unit * unit, 1.0
    largest = max(squares * max(1.0, ORDINARY / count), LEAST_SQUARE)
    square = min(x * x, largest) if count >= FEW_VALUES else x * x
    return x, square, -1.0 if abs(x) < limit * LEAST_SHARE else 0.0


@jittable
def limited_reward(state: Floats, score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """Return the reward, or one with a residual of typical size if its residual is an outlier.

    `score` is the posterior mean of the score and `variance` its variance, before the reward is learned.
    """
    if state[WEIGHT] <= FIRST_LIMITED or state[SQUARED_RESIDUALS] == 0.0:
        return reward
    mean, slope, mean_slope = link.mean(score), link.slope(score), state[CURVATURE] / state[WEIGHT]
    # The expected squared residual at dispersion 1; with the mean slope where the link is almost flat.
    expected = max(slope, mean_slope) * (1.0 + slope * variance)
    residual, shortage = reward - mean, FEW_REWARDS / state[WEIGHT]
    largest = LARGEST_RATIO * (1.0 + shortage * shortage) * state[SQUARED_RESIDUALS] * expected
    if not residual * residual * mean_slope > largest:
        return reward
    typical = math.sqrt(expected * (state[SQUARED_RESIDUALS] / state[EXPECTED]))
    doublings = 1.0 + OFTEN * state[OUTLYING_REWARDS] / state[COUNT]
    state[SQUARED_RESIDUALS] *= math.exp(math.log(2.0) * min(doublings, 30.0))
    state[OUTLIERS] += 1.0
    state[OUTLYING_REWARDS] += 1.0
    return float(mean + math.copysign(typical, residual))
