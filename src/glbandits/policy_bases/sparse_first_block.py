"""The first block of SGD-TS on sparse rows: the rows are kept as they came, then fitted in the space that they span.

A kept row is the number of its features, its reward, the features, and their values.
"""

import math
from typing import Any

import numpy as np

from glbandits.maths.feature_table import EMPTY, ENTRIES, HEADER, find, insert_all, table_at
from glbandits.maths.likelihood import RIDGE_WITHOUT_MLE, Fit, fit
from glbandits.maths.links import LinkFunctions
from glbandits.numba_support import jittable
from glbandits.records import Floats, Ints

DEPENDENT = 1e-13
"""A row is taken for a sum of earlier ones if no more than this share of its squared length is new."""


@jittable
def row_capacity(filled: int) -> int:
    """Numbers for which a state with so many numbers of rows has room."""
    capacity = 0 if filled == 0 else 64
    while capacity < filled:
        capacity *= 2
    return capacity


@jittable
def keep_sparse_row(state: Floats, start: int, filled: int, indices: Ints, values: Floats, reward: float) -> Floats:
    """Write a row behind the `filled` numbers of those that begin at `start`. Returns the state, maybe a larger one."""
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
    """Whether these numbers are so many kept rows."""
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
    """The offset of each kept row."""
    starts = np.empty(count, dtype=np.int64)
    for row in range(count):
        starts[row] = start
        start += 2 + 2 * int(state[start])
    return starts


@jittable
def fit_kept_rows(
    kept: Floats,
    starts: Ints,
    state: Floats,
    table_start: int,
    initial: Floats,
    column: int,
    ridge: float,
    dim: int,
    link: LinkFunctions,
) -> tuple[Floats, Fit]:
    """Write the maximum likelihood estimate to a column of the table. Returns the state, maybe larger, and the fit.

    Without a ridge there is an estimate only if the rows span all dim features. Otherwise the ridge is that of `fit`
    for such data; the estimate then is a sum of rows.
    """
    count = starts.shape[0]
    rewards = np.empty(count)
    for s in range(count):
        rewards[s] = kept[starts[s] + 1]
        features = features_of(kept, starts[s])
        state = insert_all(state, table_start, features, np.empty(features.shape[0], dtype=np.int64), initial)
    seen = int(state[table_start + ENTRIES])
    if ridge == 0.0 and (seen < dim or count < dim):
        ridge = RIDGE_WITHOUT_MLE
    if seen <= count:
        return state, fit_columns(kept, starts, rewards, state, table_start, column, seen, ridge, link)
    return state, fit_span(kept, starts, rewards, state, table_start, column, ridge, link)


@jittable
def features_of(kept: Floats, start: int) -> Ints:
    """The features of a kept row."""
    features = np.empty(int(kept[start]), dtype=np.int64)
    for k in range(features.shape[0]):
        features[k] = int(kept[start + 2 + k])
    return features


@jittable
def fit_columns(
    kept: Floats,
    starts: Ints,
    rewards: Floats,
    state: Floats,
    table_start: int,
    column: int,
    seen: int,
    ridge: float,
    link: LinkFunctions,
) -> Fit:
    """Fit the features that were seen, if they are not more than the rows."""
    table, number = table_at(state, table_start), 0
    for row in range(table_start + HEADER, state.shape[0], table.width):  # number the features
        if state[row] != EMPTY:
            state[row + column] = number
            number += 1
    X = np.zeros((starts.shape[0], seen))
    for s in range(starts.shape[0]):
        n = int(kept[starts[s]])
        for k in range(n):
            row = find(state, table, int(kept[starts[s] + 2 + k]))
            X[s, int(state[row + column])] = kept[starts[s] + 2 + n + k]
    estimate = fit(X, rewards, np.ones(rewards.shape[0]), ridge, np.zeros(seen), link)
    for row in range(table_start + HEADER, state.shape[0], table.width):
        if state[row] != EMPTY:
            state[row + column] = estimate.theta[int(state[row + column])]
    return estimate


@jittable
def fit_span(
    kept: Floats,
    starts: Ints,
    rewards: Floats,
    state: Floats,
    table_start: int,
    column: int,
    ridge: float,
    link: LinkFunctions,
) -> Fit:
    """Fit in the span of the rows, if it has fewer dimensions than features were seen. O(n^3) for n rows.

    With XX' = LL', theta = X'a and w = L'a the scores are Lw, and the norm of theta is that of w. L has a column for
    each row that is not a sum of earlier ones, and a is 0 for the others.
    """
    count = starts.shape[0]
    L, pivots, rank = np.zeros((count, count)), np.empty(count, dtype=np.int64), 0
    for s in range(count):
        length = kept_product(kept, starts[s], starts[s])
        remaining = length
        for c in range(rank):
            value = kept_product(kept, starts[s], starts[pivots[c]])
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
        n = int(kept[start])
        for k in range(n):
            row = find(state, table, int(kept[start + 2 + k]))
            state[row + column] += a[c] * kept[start + 2 + n + k]
    return estimate


@jittable
def kept_product(kept: Floats, one: int, other: int) -> float:
    """The product x'y of two kept rows."""
    n, m, i, j, total = int(kept[one]), int(kept[other]), 0, 0, 0.0
    while i < n and j < m:
        x, y = kept[one + 2 + i], kept[other + 2 + j]
        if x == y:
            total += kept[one + 2 + n + i] * kept[other + 2 + m + j]
        i += 1 if x <= y else 0
        j += 1 if y <= x else 0
    return total
