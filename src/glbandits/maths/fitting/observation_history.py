"""A history of all observations, as a part of the state of a policy.

The history is the last part of a state, from a given offset on: the number of rows, the capacity, the features of each
row, the count of each row, and the mean reward of each row. A recurring arm updates its row, so with a fixed set of
arms the history stops growing. The search for the row takes no longer than one step of a fit. Policies with several
sets of observations add a label to each row, as a last feature.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.vectors import copy_to

INITIAL_CAPACITY = 16
"""The number of rows for which a new history has capacity."""


class History(NamedTuple):
    """Views of the rows of a history."""

    features: Floats
    """(n, d)."""
    counts: Floats
    """The number of observations of each row, (n,)."""
    rewards: Floats
    """The mean reward of each row, (n,)."""


@jittable
def history_size(capacity: int, dim: int) -> int:
    """The size of a history with room for this number of rows."""
    return 2 + capacity * (dim + 2)


def empty_history(dim: int) -> Floats:
    """A history without observations."""
    empty = np.zeros(history_size(INITIAL_CAPACITY, dim))
    empty[1] = INITIAL_CAPACITY
    return empty


def is_valid_history(state: Floats, offset: int, dim: int) -> bool:
    """Whether a state has a valid history from this offset to its end."""
    if state.size < offset + history_size(INITIAL_CAPACITY, dim):
        return False
    used, capacity = float(state[offset]), float(state[offset + 1])
    if not (used.is_integer() and capacity.is_integer() and 0 <= used <= capacity):
        return False
    return state.size == offset + history_size(int(capacity), dim)


@jittable
def history(state: Floats, offset: int, dim: int) -> History:
    """The rows of the history at this offset."""
    used, capacity, start = int(state[offset]), int(state[offset + 1]), offset + 2
    counts = start + capacity * dim
    return History(
        state[start : start + used * dim].reshape(used, dim),
        state[counts : counts + used],
        state[counts + capacity : counts + capacity + used],
    )


@shared(VECTOR(VECTOR, types.int64, READ_VECTOR, types.float64))
def remember(state: Floats, offset: int, x: Floats, reward: float) -> Floats:
    """Add an observation.

    Returns the state, which is a larger copy if there was no room for a new row.
    """
    dim, used, start = x.shape[0], int(state[offset]), offset + 2
    row = find_row(state, start, used, x)
    if row == used and used == int(state[offset + 1]):
        state = with_double_capacity(state, offset, dim)
    capacity = int(state[offset + 1])
    counts = start + capacity * dim
    if row == used:
        copy_to(state[start + row * dim : start + (row + 1) * dim], x)
        state[offset] += 1.0
    state[counts + row] += 1.0
    state[counts + capacity + row] += (reward - state[counts + capacity + row]) / state[counts + row]
    return state


@jittable
def rows_labelled(state: Floats, offset: int, dim: int, first: float, second: float) -> History:
    """A copy of the rows with one of two labels, without the label.

    The label is the last feature, after dim others.
    """
    rows = history(state, offset, dim + 1)
    total = 0
    for s in range(rows.counts.shape[0]):
        total += rows.features[s, dim] == first or rows.features[s, dim] == second
    selected = History(np.empty((total, dim)), np.empty(total), np.empty(total))
    total = 0
    for s in range(rows.counts.shape[0]):
        if rows.features[s, dim] == first or rows.features[s, dim] == second:
            for i in range(dim):
                selected.features[total, i] = rows.features[s, i]
            selected.counts[total], selected.rewards[total] = rows.counts[s], rows.rewards[s]
            total += 1
    return selected


@jittable
def labelled(x: Floats, label: float) -> Floats:
    """A row for `remember`: the features followed by a label."""
    row = np.empty(x.shape[0] + 1)
    copy_to(row, x)
    row[x.shape[0]] = label
    return row


@jittable
def find_row(state: Floats, start: int, used: int, x: Floats) -> int:
    """The index of the row with these features; `used` if there is none."""
    dim = x.shape[0]
    for row in range(used):
        i = 0
        while i < dim and state[start + row * dim + i] == x[i]:
            i += 1
        if i == dim:
            return row
    return used


@jittable
def with_double_capacity(state: Floats, offset: int, dim: int) -> Floats:
    """A copy of the state with twice the capacity of the history."""
    used, capacity = int(state[offset]), int(state[offset + 1])
    more = max(INITIAL_CAPACITY, 2 * capacity)
    larger = np.zeros(offset + history_size(more, dim))
    copy_to(larger, state[:offset])
    larger[offset], larger[offset + 1] = state[offset], more
    old, new = offset + 2, offset + 2
    copy_to(larger[new:], state[old : old + used * dim])
    for part in range(2):
        old, new = offset + 2 + capacity * (dim + part), offset + 2 + more * (dim + part)
        copy_to(larger[new:], state[old : old + used])
    return larger
