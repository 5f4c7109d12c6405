"""The posterior of `self_scaling_posterior` for sparse rows, with a diagonal matrix P.

The features learned so far are in a hash table (`maths.feature_table`). The formulas are those of
`self_scaling_posterior` with one block for each feature. A feature that was never learned is not in the table. It has
mean 0, coupling 0 and the prior precision `UNSEEN_PRIOR`.

A reward moves the mean of the intercept b, and thereby the mean of every feature i by -g_i times that move. To update
only the features of the reward, the table stores the mean of theta given b = 0, m_i = mean_i + g_i b.
"""

import math

import numpy as np

from glbandits.maths.feature_table import empty_table, entries_of, find_all, insert_all, is_valid_table, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.numba_support import jittable
from glbandits.policy import StateLayout
from glbandits.policy_bases.self_scaling_posterior import (
    COUNT,
    FIRST_SCALE,
    INTERCEPT,
    INTERCEPT_PRECISION,
    LARGEST_SHARE,
    LEAST_SQUARE,
    PRIOR_SCALE,
    RESOLUTION,
    SCALARS,
    WEIGHT,
    record_residual,
)  # fmt: skip
from glbandits.records import Floats, Ints

LAYOUT = StateLayout(SCALARS)
UNSEEN_PRIOR = LAYOUT.scalar("unseen_prior", at_least=0.0)
"""The prior precision of features that are not in the table."""
SEEN = LAYOUT.scalar("seen", at_least=0.0)
"""The number of features whose presence is not 0."""
PRESENCE_SUM = LAYOUT.scalar("presence_sum", at_least=0.0)
"""The sum of the presence of all features."""
TABLE = LAYOUT.end()(0)
"""The offset of the table in the state."""

MEAN, COUPLING, VARIANCE, PRIOR, SQUARES, PRESENCE, ROW = 1, 2, 3, 4, 5, 6, 8
"""Columns of a table row (column 0 is the feature), and the number of columns. MEAN is m_i.

A decision reads columns 0 to 3 only. The last column is unused: it makes a row as large as a cache line, so that a
lookup rarely reads two lines.
"""


def initial_state(intercept_precision: float) -> Floats:
    """Return the state before the first reward."""
    scalars = LAYOUT.allocate(0, prior_scale=FIRST_SCALE, intercept_precision=intercept_precision, unseen_prior=1.0)
    return np.concatenate([scalars, empty_table(ROW)])


def is_valid_posterior(state: Floats, dim: int) -> bool:
    """Whether this array can be a state. For states that come from files."""
    if not is_valid_table(state, TABLE, ROW, dim) or not LAYOUT.is_valid(state[:TABLE], 0):
        return False
    if not (state[[PRIOR_SCALE, INTERCEPT_PRECISION, UNSEEN_PRIOR]] > 0.0).all():
        return False
    entries = entries_of(state, TABLE)
    return bool((entries[:, [VARIANCE, PRIOR]] > 0.0).all() and (entries[:, [SQUARES, PRESENCE]] >= 0.0).all())


def means(entries: Floats, intercept: float) -> Floats:
    """Return the means of theta for rows of the table, from m and the mean of the intercept."""
    theta: Floats = entries[:, MEAN] - entries[:, COUPLING] * intercept
    return theta


@jittable
def sparse_score_moments(
    state: Floats, indptr: Ints, indices: Ints, values: Floats, levels: Floats, variances: Floats
) -> None:
    """Write the posterior mean (without the intercept) and variance of the score of each arm."""
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
                level += x * state[row + MEAN]
                remaining -= x * state[row + COUPLING]
                variance += x * x * state[row + VARIANCE]
            else:
                variance += x * x * unseen
        levels[a] = level + (remaining - 1.0) * b
        variances[a] = remaining * remaining * intercept_variance + variance


@jittable
def count_features(state: Floats, indices: Ints, values: Floats, rows: Ints) -> Floats:
    """Count a reward and its features, and write the offsets of their table rows to `rows`.

    Inserts new features and sets their prior. Returns the state, which may be a larger array.
    """
    unseen = float(state[UNSEEN_PRIOR])
    initial = np.array([0.0, 0.0, 1.0 / unseen, unseen, 0.0, 0.0])
    state = insert_all(state, TABLE, indices, rows, initial)
    new_features = 0.0
    for k in range(rows.shape[0]):
        row = rows[k]
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
def learn_sparse_reward(state: Floats, rows: Ints, values: Floats, reward: float, link: LinkFunctions) -> None:
    """Update the posterior by one reward, and record its residual."""
    count = rows.shape[0]
    directions = np.empty(count)
    score, remaining, diagonal = 0.0, 1.0, 0.0  # remaining is 1 - g'x
    for k in range(count):
        x, row = values[k], rows[k]
        directions[k] = x * state[row + VARIANCE]
        score += x * state[row + MEAN]
        remaining -= x * state[row + COUPLING]
        diagonal += x * directions[k]
    score += remaining * state[INTERCEPT]
    gain = remaining / state[INTERCEPT_PRECISION]
    variance = max(diagonal + remaining * gain, RESOLUTION * (diagonal + 1.0 / state[INTERCEPT_PRECISION]))
    z = proximal_score(score, variance, reward, link)
    pull, slope = proximal_pull(z, score, variance, reward, link), link.slope(z)
    for k in range(count):
        state[rows[k] + MEAN] += pull * directions[k]
    state[INTERCEPT] += pull * gain
    record_residual(state, pull, slope, variance)
    add_diagonal_curvature(state, rows, values, directions, slope)


@jittable
def add_diagonal_curvature(state: Floats, rows: Ints, values: Floats, directions: Floats, slope: float) -> None:
    """Update variances, couplings and the intercept's precision for the curvature of a reward."""
    constant = 1.0 / math.sqrt(max(float(rows.shape[0]), 1.0))
    intercept, intercept_precision = state[INTERCEPT], state[INTERCEPT_PRECISION]
    for k in range(rows.shape[0]):
        x, u, row = values[k], directions[k], rows[k]
        before, coupling = state[row + VARIANCE], state[row + COUPLING]
        variance, remaining, limited = x * u, constant - x * coupling, slope
        # Limit the curvature so that the remaining variance is at least `least`. A smaller one would be rounding error.
        least = RESOLUTION * (x * x * before)
        if least > 1e-300:
            variance = max(variance, least)
            if slope * least * variance > variance - least:  # slope > 1 / least - 1 / variance, without divisions
                limited = 1.0 / least - 1.0 / variance
        weight = limited / (1.0 + limited * variance)
        state[row + VARIANCE] = before - weight * u * u
        state[row + COUPLING] = coupling + weight * remaining * u
        state[row + MEAN] += weight * remaining * u * intercept  # so that mean_i = m_i - g_i b stays the same
        intercept_precision += weight * remaining * remaining
    state[INTERCEPT_PRECISION] = intercept_precision if rows.shape[0] > 0 else intercept_precision + slope
