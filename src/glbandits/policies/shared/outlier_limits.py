"""Limits of features and rewards far outside everything seen, so that one of them cannot ruin what was learned.

Features: the unit of a feature is its root mean square. A value above OUTLYING units counts as one unit with the same
sign, when choosing and when learning. If most values of a feature do not fit its unit, the unit was wrong: the feature
takes the present value as its unit, and its coefficient is learned again.

Rewards: if the squared residual of a reward is far above the sum of all squared residuals so far, the reward counts as
one with a residual of typical size. The sum then doubles, or grows more if there were many outliers. So a few absurd
rewards change little, but rewards that are often of this size are soon learned as they are. Rewards between two bounds
are never limited.
"""

import math

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.links import LinkFunctions
from glbandits.policies.shared.posterior_state import (
    ALL_SQUARES,
    COUNT,
    CURVATURE,
    EXPECTED,
    OUTLIERS,
    OUTLYING_REWARDS,
    SQUARED_RESIDUALS,
    WEIGHT,
    limits_at,
    limits_of,
    presence_at,
    presence_of,
    squares_at,
    squares_of,
    votes_at,
)

OUTLYING = 1e3
"""A value of a feature above so many units is an outlier."""
FEW_VALUES = 16.0
"""With fewer values than this, the unit is uncertain, and larger values are accepted."""
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


def limited_rows(state: Floats, rows: Floats, largest: float) -> Floats:
    """Return the rows of a matrix as `limit_features` returns each of them. Not for compiled code.

    No absolute value is above `largest`.
    """
    dim = rows.shape[1]
    limits = limits_of(state, dim)
    if largest <= limits.min():
        return rows
    outlying = np.abs(rows) > limits
    if not outlying.any():
        return rows
    presence = presence_of(state, dim)
    units = np.sqrt(np.maximum(squares_of(state, dim) / np.where(presence > 0.0, presence, 1.0), LEAST_SQUARE))
    return np.where(outlying, np.copysign(units, rows), rows)


@shared(types.boolean(VECTOR, READ_VECTOR, VECTOR))
def count_features(state: Floats, x: Floats, values: Floats) -> bool:
    """Count a reward and its features, which are written to `values` with outliers limited.

    Returns whether a feature needs a prior: it is present for the first time, or has another unit from now on. Reads
    the state by offset, because it runs for every reward and a slice takes 20 ns.
    """
    dim = x.shape[0]
    squares, presence, limits, is_unusual = squares_at(dim), presence_at(dim), limits_at(dim), False
    for i in range(dim):
        size, limit = abs(x[i]), state[limits + i]
        is_unusual |= (size > limit) | ((size < limit * LEAST_SHARE) & (size > 0.0))
        values[i] = x[i]
    if is_unusual:
        judge_values(state, values)
    new_features = 0.0
    for i in range(dim):
        present = 1.0 if values[i] != 0.0 else 0.0
        new_features += present if state[presence + i] == 0.0 else 0.0
        state[squares + i] += values[i] * values[i]
        state[presence + i] += present
    state[COUNT] += 1.0
    state[WEIGHT] += 1.0
    return new_features > 0.0


@jittable
def judge_values(state: Floats, values: Floats) -> None:
    """Limit outliers in `values`, and make features whose unit was wrong unseen."""
    dim = values.shape[0]
    squares, presence, limits, votes = squares_at(dim), presence_at(dim), limits_at(dim), votes_at(dim)
    for i in range(dim):
        size, limit, count = abs(values[i]), state[limits + i], state[presence + i]
        if size == 0.0 or count == 0.0 or limit * LEAST_SHARE <= size <= limit:
            continue
        state[votes + i] += 1.0 if size > limit else -1.0
        if is_wrong_unit(state[votes + i], count):
            state[votes + i] = state[presence + i] = state[squares + i] = 0.0
        elif size > limit:
            values[i] = math.copysign(unit_of(state[squares + i], count), values[i])
            state[OUTLIERS] += 1.0


@jittable
def is_wrong_unit(votes: float, count: float) -> bool:
    """Whether most values of a feature do not fit its unit: `count` values, and the present one."""
    return abs(votes) > 0.5 * (count + 1.0)


@jittable
def limited_reward(state: Floats, score: float, variance: float, reward: float, link: LinkFunctions) -> float:
    """Return the reward, or one with a residual of typical size if its residual is an outlier.

    `score` is the posterior mean of the score and `variance` its variance, before the reward is learned.
    """
    if state[WEIGHT] <= FIRST_LIMITED or state[SQUARED_RESIDUALS] == 0.0:  # the scale of rewards is unknown
        return reward
    mean, slope, mean_slope = link.mean(score), link.slope(score), state[CURVATURE] / state[WEIGHT]
    # The expected squared residual at dispersion 1; with the mean slope where the link is almost flat.
    expected = max(slope, mean_slope) * (1.0 + slope * variance)
    residual, shortage = reward - mean, FEW_REWARDS / state[WEIGHT]
    largest = LARGEST_RATIO * (1.0 + shortage * shortage) * state[ALL_SQUARES] * expected
    if not residual * residual * mean_slope > largest:
        return reward
    typical = math.sqrt(expected * (state[SQUARED_RESIDUALS] / state[EXPECTED]))
    doublings = 1.0 + OFTEN * state[OUTLYING_REWARDS] / state[COUNT]
    state[ALL_SQUARES] *= math.exp(math.log(2.0) * min(doublings, 30.0))
    state[OUTLIERS] += 1.0
    state[OUTLYING_REWARDS] += 1.0
    return float(mean + math.copysign(typical, residual))
