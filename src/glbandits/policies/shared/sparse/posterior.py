"""The posterior of `self_scaling_posterior` for sparse rows, with a diagonal matrix P.

The features learned so far are in a hash table (`maths.feature_table`). The formulas are those of
`self_scaling_posterior` with one block for each feature. A feature that was never learned is not in the table. It has
mean 0, coupling 0 and the prior precision `UNSEEN_PRIOR`.

A reward moves the mean of the intercept b, and thereby the mean of every feature i by -g_i times that move. To update
only the features of the reward, the table stores the mean of theta given b = 0, m_i = mean_i + g_i b.
"""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import empty_table, entries_of, find_all, insert_all, is_valid_table, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.covariance_factor import LEAST_VARIANCE
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.contract import StateLayout
from glbandits.policies.shared.outlier_limits import (
    LEAST_SHARE,
    LEAST_SQUARE,
    OUTLYING,
    is_wrong_unit,
    limit_of,
    limited_reward,
    unit_of,
)
from glbandits.policies.shared.posterior_state import (
    COUNT,
    INTERCEPT,
    INTERCEPT_PRECISION,
    OUTLIERS,
    PRIOR_SCALE,
    SCALARS,
    WEIGHT,
)
from glbandits.policies.shared.self_scaling_posterior import FIRST_SCALE, LARGEST_SHARE, proximal_move

LAYOUT = StateLayout(SCALARS)
UNSEEN_PRIOR = LAYOUT.scalar("unseen_prior", at_least=0.0)
"""The prior precision of features that are not in the table."""
SEEN = LAYOUT.scalar("seen", at_least=0.0)
"""The number of features whose presence is not 0."""
PRESENCE_SUM = LAYOUT.scalar("presence_sum", at_least=0.0)
"""The sum of the presence of all features."""
TABLE = LAYOUT.end()(0)
"""The offset of the table in the state."""

MEAN, COUPLING, VARIANCE, PRIOR, SQUARES, PRESENCE, VOTES, ROW = 1, 2, 3, 4, 5, 6, 7, 8
"""Columns of a table row (column 0 is the feature), and the number of columns. MEAN is m_i.

A row is as large as a cache line, so that a lookup rarely reads two lines.
"""
SMALL_SQUARE = 1e-4
"""A value whose square is above this share of the mean square of its feature is not too small for its unit."""


def initial_sparse_state(intercept_precision: float) -> Floats:
    """Return the state before the first reward."""
    scalars = LAYOUT.allocate(0, prior_scale=FIRST_SCALE, intercept_precision=intercept_precision, unseen_prior=1.0)
    return np.concatenate([scalars, empty_table(ROW)])


def is_valid_sparse_state(state: Floats, dim: int) -> bool:
    """Whether this array can be a state. For states that come from files."""
    if not is_valid_table(state, TABLE, ROW, dim) or not LAYOUT.is_valid(state[:TABLE], 0):
        return False
    if not (state[[PRIOR_SCALE, INTERCEPT_PRECISION, UNSEEN_PRIOR]] > 0.0).all():
        return False
    entries = entries_of(state, TABLE)
    return bool((entries[:, [VARIANCE, PRIOR]] > 0.0).all() and (entries[:, [SQUARES, PRESENCE]] >= 0.0).all())


def sparse_means(entries: Floats, intercept: float) -> Floats:
    """Return the means of theta for rows of the table, from m and the mean of the intercept."""
    theta: Floats = entries[:, MEAN] - entries[:, COUPLING] * intercept
    return theta


@jittable
def seen_features(state: Floats, settings: Any, arms: SparseRows) -> float:
    """The number of features seen so far."""
    return float(state[SEEN])


@jittable
def sparse_score_moments(state: Floats, arms: SparseRows, levels: Floats, variances: Floats) -> None:
    """Write the posterior mean (without the intercept) and variance of the score of each arm."""
    indptr, indices, values = arms
    table, unseen = table_at(state, TABLE), 1.0 / state[UNSEEN_PRIOR]
    b, intercept_variance = state[INTERCEPT], 1.0 / state[INTERCEPT_PRECISION]
    first, last = indptr[0], indptr[indptr.shape[0] - 1]
    rows = np.empty(last - first, dtype=np.int64)
    find_all(state, table, indices[first:last], rows)
    for a in range(indptr.shape[0] - 1):
        level, remaining, variance = 0.0, 1.0, 0.0
        for k in range(indptr[a], indptr[a + 1]):
            x, row = values[k], rows[k - first]
            if row >= 0:
                x = limited_value(state, row, x)
                level += x * state[row + MEAN]
                remaining -= x * state[row + COUPLING]
                variance += x * x * state[row + VARIANCE]
            else:
                variance += x * x * unseen
        levels[a] = level + (remaining - 1.0) * b
        variances[a] = remaining * remaining * intercept_variance + variance


@jittable
def limited_value(state: Floats, row: int, x: float) -> float:
    """Return the value of a feature, or one unit with its sign if it is an outlier (`outlier_limits`)."""
    squares, count = state[row + SQUARES], state[row + PRESENCE]
    # Most values are at most so large, and need no square root.
    if x * x * count <= OUTLYING * OUTLYING * squares or count == 0.0 or abs(x) <= limit_of(squares, count):
        return x
    return math.copysign(unit_of(squares, count), x)


@jittable
def judged_value(state: Floats, row: int, x: float) -> float:
    """Return the value of a feature, limited, and make the feature unseen if its unit was wrong.

    As `outlier_limits.judge_values`.
    """
    squares, count = state[row + SQUARES], state[row + PRESENCE]
    if count == 0.0 or SMALL_SQUARE * squares <= x * x * count <= OUTLYING * OUTLYING * squares:
        return x  # most values: no square root is needed
    size, limit = abs(x), limit_of(squares, count)
    if size == 0.0 or limit * LEAST_SHARE <= size <= limit:
        return x
    state[row + VOTES] += 1.0 if size > limit else -1.0
    if is_wrong_unit(state[row + VOTES], count):
        state[SEEN] -= 1.0
        state[PRESENCE_SUM] -= count
        state[row + VOTES] = state[row + PRESENCE] = state[row + SQUARES] = 0.0
        state[row + MEAN] = state[row + COUPLING] = 0.0
        return x
    state[OUTLIERS] += 1.0 if size > limit else 0.0
    return limited_value(state, row, x)


@jittable
def count_sparse_features(state: Floats, x: SparseRow, rows: Ints, values: Floats) -> Floats:
    """Count a reward and its features, as `outlier_limits.count_features`. Insert new features and set their prior.

    Writes the offsets of their table rows to `rows`, and their values with outliers limited to `values`. Returns the
    state, which may be a larger array.
    """
    (indices, x_values), unseen = x, float(state[UNSEEN_PRIOR])
    initial = np.array([0.0, 0.0, 1.0 / unseen, unseen, 0.0, 0.0, 0.0])
    state = insert_all(state, TABLE, indices, rows, initial)
    new_features = 0.0
    for k in range(rows.shape[0]):
        row = rows[k]
        values[k] = judged_value(state, row, x_values[k])
        new_features += 1.0 if state[row + PRESENCE] == 0.0 else 0.0
        state[row + SQUARES] += values[k] * values[k]
        state[row + PRESENCE] += 1.0
    state[COUNT] += 1.0
    state[WEIGHT] += 1.0
    state[SEEN] += new_features
    state[PRESENCE_SUM] += float(rows.shape[0])
    if new_features > 0.0:
        scale = state[PRIOR_SCALE] * max(state[PRESENCE_SUM] / state[WEIGHT], 1.0 / LARGEST_SHARE)
        for k in range(rows.shape[0]):
            if state[rows[k] + PRESENCE] == 1.0:  # a prior in the units of the first value
                state[rows[k] + PRIOR] = max(values[k] * values[k], LEAST_SQUARE) * scale
                state[rows[k] + VARIANCE] = 1.0 / state[rows[k] + PRIOR]
    return state


@jittable
def learn_sparse_reward(
    state: Floats, rows: Ints, values: Floats, reward: float, noise: float, link: LinkFunctions
) -> None:
    """Update the posterior by one reward, and record its residual, as `self_scaling_posterior.learn_reward`."""
    count = rows.shape[0]
    directions = np.empty(count)
    score, remaining, variance = 0.0, 1.0, 0.0  # remaining is 1 - g'x
    for k in range(count):
        x, row = values[k], rows[k]
        directions[k] = x * state[row + VARIANCE]
        score += x * state[row + MEAN]
        remaining -= x * state[row + COUPLING]
        variance += x * directions[k]
    score += remaining * state[INTERCEPT]
    gain = remaining / state[INTERCEPT_PRECISION]
    variance += remaining * gain
    if noise == 0.0:
        reward = limited_reward(state, score, variance, reward, link)
    pull, slope = proximal_move(state, score, variance, reward, link)
    for k in range(count):
        state[rows[k] + MEAN] += pull * directions[k]
    state[INTERCEPT] += pull * gain
    add_diagonal_curvature(state, rows, values, directions, slope)


@jittable
def add_diagonal_curvature(state: Floats, rows: Ints, values: Floats, directions: Floats, slope: float) -> None:
    """Update variances, couplings and the intercept's precision for the curvature of a reward."""
    constant = 1.0 / math.sqrt(max(float(rows.shape[0]), 1.0))
    intercept, intercept_precision = state[INTERCEPT], state[INTERCEPT_PRECISION]
    for k in range(rows.shape[0]):
        x, u, row = values[k], directions[k], rows[k]
        coupling, growth = state[row + COUPLING], 1.0 + slope * x * u
        remaining = constant - x * coupling
        step = slope * remaining / growth
        state[row + VARIANCE] = max(state[row + VARIANCE] / growth, LEAST_VARIANCE)
        state[row + COUPLING] = coupling + step * u
        state[row + MEAN] += step * u * intercept  # so that mean_i = m_i - g_i b stays the same
        intercept_precision += step * remaining
    state[INTERCEPT_PRECISION] = intercept_precision if rows.shape[0] > 0 else intercept_precision + slope
