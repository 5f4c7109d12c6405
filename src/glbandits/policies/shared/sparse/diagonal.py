"""The posterior of `diagonal_step` for sparse rows.

A hash table (`maths.feature_table`) has a mean and a precision for each feature learned so far.
"""

from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import (
    empty_table,
    entries_of,
    find_all,
    has_room,
    insert_all,
    is_valid_table,
    table_at,
)
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.contract import Coefficients, StateLayout

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
TABLE = LAYOUT.end()(0)
"""The offset of the table in the state."""
MEAN, PRECISION, ROW = 1, 2, 3
"""Columns of a table row (column 0 is the feature), and the number of columns."""


class SparseDiagonal:
    """The state of a sparse form with this posterior. A base class beside the policy."""

    def implementation(self, dim: int) -> Any:
        return type(self)

    def init(self, dim: int) -> Floats:
        return np.concatenate([LAYOUT.allocate(0), empty_table(ROW)])

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        if not is_valid_table(state, TABLE, ROW, dim) or not LAYOUT.is_valid(state[:TABLE], 0):
            return False
        return bool((entries_of(state, TABLE)[:, PRECISION] > 0.0).all())

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        entries = entries_of(state, TABLE)
        return Coefficients(entries[:, MEAN], indices=entries[:, 0].astype(np.int64))

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        return has_room(state, TABLE, features, max_size)


@jittable
def learn_diagonal(state: Floats, x: SparseRow, reward: float, prior_precision: float, link: LinkFunctions) -> Floats:
    """Update the posterior by one reward. Returns the state, which may be a larger array."""
    indices, values = x
    count, variance, score = indices.shape[0], 0.0, 0.0
    rows, directions = np.empty(count, dtype=np.int64), np.empty(count)
    state = insert_all(state, TABLE, indices, rows, np.array([0.0, prior_precision]))
    for k in range(count):
        directions[k] = values[k] / state[rows[k] + PRECISION]
        variance += values[k] * directions[k]
        score += values[k] * state[rows[k] + MEAN]
    z = proximal_score(score, variance, reward, link)
    pull, curvature = proximal_pull(z, score, variance, reward, link), link.slope(z)
    for k in range(count):
        state[rows[k] + MEAN] += pull * directions[k]
        state[rows[k] + PRECISION] += curvature * values[k] * values[k]
    state[LEARNED] += 1.0
    return state


@jittable
def scores_by_mean(state: Floats, arms: SparseRows, out: Floats) -> None:
    """Write the score of each arm under the means."""
    indptr, indices, values = arms
    first, last = indptr[0], indptr[indptr.shape[0] - 1]
    rows = np.empty(last - first, dtype=np.int64)
    find_all(state, table_at(state, TABLE), indices[first:last], rows)
    for a in range(indptr.shape[0] - 1):
        score = 0.0
        for k in range(indptr[a], indptr[a + 1]):
            if rows[k - first] >= 0:
                score += values[k] * state[rows[k - first] + MEAN]
        out[a] = score
