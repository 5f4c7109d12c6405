"""The first block of SGD-TS on sparse rows: stored rows, and the fit to them.

Until the first block is complete, the state has rows in place of the table. A stored row consists of its number of
features, its reward, the features, and their values. The fit works in the space that the rows span, because the number
of features may be huge.
"""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import EMPTY, ENTRIES, HEADER, empty_table, find_all, insert_all, table_at
from glbandits.maths.fitting.likelihood import RIDGE_WITHOUT_MLE, Fit, fit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.algorithms.sgd_ts import CONVERGED, FITTED_RIDGE, POSITION
from glbandits.policies.sparse_forms.lazy_sgd import FILLED, HAT, ROW, TABLE, initial_row

DEPENDENT = 1e-13
"""A row counts as linearly dependent if at most this share of its squared norm is outside the span of earlier rows."""


@jittable
def row_capacity(filled: int) -> int:
    """The number of numbers that a state reserves for stored rows of `filled` numbers: 0 or a power of 2."""
    capacity = 0 if filled == 0 else 64
    while capacity < filled:
        capacity *= 2
    return capacity


@jittable
def append_row(state: Floats, x: SparseRow, reward: float) -> Floats:
    """Append a row to the stored rows. Returns the state, which may be a larger array."""
    indices, values = x
    count, filled = indices.shape[0], int(state[FILLED])
    at, filled_then = TABLE + filled, filled + 2 + 2 * count
    if TABLE + filled_then > state.shape[0]:
        larger = np.zeros(TABLE + row_capacity(filled_then))
        for i in range(at):
            larger[i] = state[i]
        state = larger
    state[FILLED], state[at], state[at + 1] = filled_then, count, reward
    for k in range(count):
        state[at + 2 + k] = float(indices[k])
        state[at + 2 + count + k] = values[k]
    return state


def are_valid_rows(stored: Any, count: int, filled: int, dim: int) -> bool:
    """Whether this array contains `count` valid stored rows in its first `filled` numbers."""
    at = 0
    if stored.size != row_capacity(filled):
        return False
    for _ in range(count):
        if at + 2 > filled or stored[at] != np.floor(stored[at]) or not 0 <= stored[at] <= filled:
            return False
        features = stored[at + 2 : at + 2 + int(stored[at])]
        if (features != np.floor(features)).any() or (np.diff(features) <= 0.0).any():
            return False
        if features.size and not (features[0] >= 0.0 and features[-1] < dim):
            return False
        at += 2 + 2 * int(stored[at])
    return at == filled


@jittable
def stored_rows(state: Floats) -> tuple[SparseRows, Floats]:
    """Return the stored rows and their rewards."""
    count, filled = int(state[POSITION]), int(state[FILLED])
    size = filled // 2 - count  # a row takes 2 numbers, and 2 for each feature
    indptr, indices, values = np.zeros(count + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    rewards, at = np.empty(count), TABLE
    for row in range(count):
        n, start = int(state[at]), indptr[row]
        indptr[row + 1], rewards[row] = start + n, state[at + 1]
        for k in range(n):
            indices[start + k], values[start + k] = int(state[at + 2 + k]), state[at + 2 + n + k]
        at += 2 + 2 * n
    return SparseRows(indptr, indices, values), rewards


@jittable
def fit_first_block(stored: Floats, ridge: float, dim: int, link: LinkFunctions) -> Floats:
    """Line 2: return a state with a table of the maximum likelihood estimate, in place of the stored rows.

    Without a ridge the estimate exists only if the rows span all dim features. Otherwise the ridge is
    RIDGE_WITHOUT_MLE, as in `fit`, and the estimate is in the span of the rows.
    """
    rows, rewards = stored_rows(stored)
    indptr, indices, _ = rows
    state, places = np.concatenate((stored[:TABLE], empty_table(ROW))), np.empty(indices.shape[0], dtype=np.int64)
    for s in range(rewards.shape[0]):
        start, end = indptr[s], indptr[s + 1]
        state = insert_all(state, TABLE, indices[start:end], places[start:end], initial_row())
    find_all(state, table_at(state, TABLE), indices, places)  # the table may have grown
    seen = int(state[TABLE + ENTRIES])
    if ridge == 0.0 and (seen < dim or rewards.shape[0] < dim):
        ridge = RIDGE_WITHOUT_MLE
    if seen <= rewards.shape[0]:
        estimate = fit_columns(state, places, rows, rewards, ridge, link)
    else:
        estimate = fit_span(state, places, rows, rewards, ridge, link)
    state[FITTED_RIDGE], state[CONVERGED] = estimate.ridge, 1.0 if estimate.converged else 0.0
    state[FILLED] = 0.0
    return state


@jittable
def fit_columns(
    state: Floats, places: Ints, rows: SparseRows, rewards: Floats, ridge: float, link: LinkFunctions
) -> Fit:
    """Fit one coefficient for each feature seen. For at most as many features as rows.

    `places` has the offset in the state of the table row of each index.
    """
    indptr, _, values = rows
    seen = 0
    for row in range(TABLE + HEADER, state.shape[0], ROW):  # each feature gets a column of X
        if state[row] != EMPTY:
            state[row + HAT] = seen
            seen += 1
    X = np.zeros((rewards.shape[0], seen))
    for s in range(rewards.shape[0]):
        for k in range(indptr[s], indptr[s + 1]):
            X[s, int(state[places[k] + HAT])] = values[k]
    estimate = fit(X, rewards, np.ones(rewards.shape[0]), ridge, np.zeros(seen), link)
    for row in range(TABLE + HEADER, state.shape[0], ROW):
        if state[row] != EMPTY:
            state[row + HAT] = estimate.theta[int(state[row + HAT])]
    return estimate


@jittable
def fit_span(state: Floats, places: Ints, rows: SparseRows, rewards: Floats, ridge: float, link: LinkFunctions) -> Fit:
    """Fit in the span of the rows. For more features than rows. O(n^3) for n rows.

    With XX' = LL', theta = X'a and w = L'a, the scores are Lw and ||theta|| = ||w||. So the fit of w with L in place of
    X gives theta. L has a column for each row that is linearly independent of earlier ones; a is 0 for other rows.
    """
    indptr, _, values = rows
    count = rewards.shape[0]
    L, pivots, rank = np.zeros((count, count)), np.empty(count, dtype=np.int64), 0
    for s in range(count):
        length = row_product(rows, s, s)
        remaining = length
        for c in range(rank):
            value = row_product(rows, s, pivots[c])
            for i in range(c):
                value -= L[s, i] * L[pivots[c], i]
            L[s, c] = value / L[pivots[c], c]
            remaining -= L[s, c] * L[s, c]
        if remaining > DEPENDENT * length:
            L[s, rank], pivots[rank] = math.sqrt(remaining), s
            rank += 1
    estimate = fit(L[:, :rank].copy(), rewards, np.ones(count), ridge, np.zeros(rank), link)
    a = estimate.theta.copy()
    for c in range(rank - 1, -1, -1):
        for i in range(c + 1, rank):
            a[c] -= L[pivots[i], c] * a[i]
        a[c] /= L[pivots[c], c]
    for c in range(rank):
        for k in range(indptr[pivots[c]], indptr[pivots[c] + 1]):
            state[places[k] + HAT] += a[c] * values[k]
    return estimate


@jittable
def row_product(rows: SparseRows, left: int, right: int) -> float:
    """Return the inner product of two rows, whose indices are sorted."""
    indptr, indices, values = rows
    i, j, total = indptr[left], indptr[right], 0.0
    while i < indptr[left + 1] and j < indptr[right + 1]:
        left_feature, right_feature = indices[i], indices[j]
        if left_feature == right_feature:
            total += values[i] * values[j]
        i += 1 if left_feature <= right_feature else 0
        j += 1 if right_feature <= left_feature else 0
    return total
