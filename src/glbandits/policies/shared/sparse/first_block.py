"""The first block of SGD-TS on sparse rows: stored rows, and the fit to them.

A stored row consists of its number of features, its reward, the features, and their values. The fit works in the space
that the rows span, because the number of features may be huge.
"""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import EMPTY, ENTRIES, HEADER, find, insert_all, table_at
from glbandits.maths.fitting.likelihood import RIDGE_WITHOUT_MLE, Fit, fit
from glbandits.maths.links import LinkFunctions

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
def append_sparse_row(state: Floats, start: int, filled: int, indices: Ints, values: Floats, reward: float) -> Floats:
    """Append a row to the stored rows, which begin at `start` and have `filled` numbers.

    Returns the state, which may be a larger array.
    """
    count, at = indices.shape[0], start + filled
    if at + 2 + 2 * count > state.shape[0]:
        larger = np.zeros(start + row_capacity(filled + 2 + 2 * count))
        for i in range(at):
            larger[i] = state[i]
        state = larger
    state[at], state[at + 1] = count, reward
    for k in range(count):
        state[at + 2 + k] = float(indices[k])
        state[at + 2 + count + k] = values[k]
    return state


def are_valid_rows(rows: Any, count: int, filled: int, dim: int) -> bool:
    """Whether this array contains `count` valid stored rows in its first `filled` numbers."""
    at = 0
    if rows.size != row_capacity(filled):
        return False
    for _ in range(count):
        if at + 2 > filled or rows[at] != np.floor(rows[at]) or not 0 <= rows[at] <= filled:
            return False
        features = rows[at + 2 : at + 2 + int(rows[at])]
        if (features != np.floor(features)).any() or (np.diff(features) <= 0.0).any():
            return False
        if features.size and not (features[0] >= 0.0 and features[-1] < dim):
            return False
        at += 2 + 2 * int(rows[at])
    return at == filled


@jittable
def row_starts(state: Floats, start: int, count: int) -> Ints:
    """The offset of each stored row."""
    starts = np.empty(count, dtype=np.int64)
    for row in range(count):
        starts[row] = start
        start += 2 + 2 * int(state[start])
    return starts


@jittable
def fit_stored_rows(
    stored: Floats,
    starts: Ints,
    state: Floats,
    table_start: int,
    initial: Floats,
    column: int,
    ridge: float,
    dim: int,
    link: LinkFunctions,
) -> tuple[Floats, Fit]:
    """Write the maximum likelihood estimate to a column of the feature table.

    Returns the state, which may be a larger array, and the fit. Without a ridge the estimate exists only if the rows
    span all dim features. Otherwise the ridge is RIDGE_WITHOUT_MLE, as in `fit`, and the estimate is in the span of the
    rows.
    """
    count = starts.shape[0]
    rewards = np.empty(count)
    for s in range(count):
        rewards[s] = stored[starts[s] + 1]
        features = features_of(stored, starts[s])
        state = insert_all(state, table_start, features, np.empty(features.shape[0], dtype=np.int64), initial)
    seen = int(state[table_start + ENTRIES])
    if ridge == 0.0 and (seen < dim or count < dim):
        ridge = RIDGE_WITHOUT_MLE
    if seen <= count:
        return state, fit_columns(stored, starts, rewards, state, table_start, column, seen, ridge, link)
    return state, fit_span(stored, starts, rewards, state, table_start, column, ridge, link)


@jittable
def features_of(stored: Floats, start: int) -> Ints:
    """Return the features of a stored row."""
    features = np.empty(int(stored[start]), dtype=np.int64)
    for k in range(features.shape[0]):
        features[k] = int(stored[start + 2 + k])
    return features


@jittable
def fit_columns(
    stored: Floats,
    starts: Ints,
    rewards: Floats,
    state: Floats,
    table_start: int,
    column: int,
    seen: int,
    ridge: float,
    link: LinkFunctions,
) -> Fit:
    """Fit one coefficient for each feature seen. For at most as many features as rows."""
    table, index = table_at(state, table_start), 0
    for row in range(table_start + HEADER, state.shape[0], table.width):  # each feature gets a column of X
        if state[row] != EMPTY:
            state[row + column] = index
            index += 1
    X = np.zeros((starts.shape[0], seen))
    for s in range(starts.shape[0]):
        n = int(stored[starts[s]])
        for k in range(n):
            row = find(state, table, int(stored[starts[s] + 2 + k]))
            X[s, int(state[row + column])] = stored[starts[s] + 2 + n + k]
    estimate = fit(X, rewards, np.ones(rewards.shape[0]), ridge, np.zeros(seen), link)
    for row in range(table_start + HEADER, state.shape[0], table.width):
        if state[row] != EMPTY:
            state[row + column] = estimate.theta[int(state[row + column])]
    return estimate


@jittable
def fit_span(
    stored: Floats,
    starts: Ints,
    rewards: Floats,
    state: Floats,
    table_start: int,
    column: int,
    ridge: float,
    link: LinkFunctions,
) -> Fit:
    """Fit in the span of the rows. For more features than rows. O(n^3) for n rows.

    With XX' = LL', theta = X'a and w = L'a, the scores are Lw and ||theta|| = ||w||. So the fit of w with L in place of
    X gives theta. L has a column for each row that is linearly independent of earlier ones; a is 0 for other rows.
    """
    count = starts.shape[0]
    L, pivots, rank = np.zeros((count, count)), np.empty(count, dtype=np.int64), 0
    for s in range(count):
        length = stored_row_product(stored, starts[s], starts[s])
        remaining = length
        for c in range(rank):
            value = stored_row_product(stored, starts[s], starts[pivots[c]])
            for i in range(c):
                value -= L[s, i] * L[pivots[c], i]
            L[s, c] = value / L[pivots[c], c]
            remaining -= L[s, c] * L[s, c]
        if remaining > DEPENDENT * length:
            L[s, rank], pivots[rank] = math.sqrt(remaining), s
            rank += 1
    estimate = fit(L[:, :rank].copy(), rewards, np.ones(count), ridge, np.zeros(rank), link)
    a, table = estimate.theta.copy(), table_at(state, table_start)
    for c in range(rank - 1, -1, -1):
        for i in range(c + 1, rank):
            a[c] -= L[pivots[i], c] * a[i]
        a[c] /= L[pivots[c], c]
    for c in range(rank):
        start = starts[pivots[c]]
        n = int(stored[start])
        for k in range(n):
            row = find(state, table, int(stored[start + 2 + k]))
            state[row + column] += a[c] * stored[start + 2 + n + k]
    return estimate


@jittable
def stored_row_product(stored: Floats, left: int, right: int) -> float:
    """Return the inner product of the stored rows at two offsets. Their features are sorted."""
    n, m, i, j, total = int(stored[left]), int(stored[right]), 0, 0, 0.0
    while i < n and j < m:
        left_feature, right_feature = stored[left + 2 + i], stored[right + 2 + j]
        if left_feature == right_feature:
            total += stored[left + 2 + n + i] * stored[right + 2 + m + j]
        i += 1 if left_feature <= right_feature else 0
        j += 1 if right_feature <= left_feature else 0
    return total
