"""All observations so far, for policies that fit them again and again.

The history is the last part of a state, from a given place on: rows used, room for rows, the features of each row,
and how often a row was seen with which mean reward. An arm that comes again adds to its row, so with a fixed set of
arms the history stops growing; looking for it costs no more than one step of a fit. Policies that keep several sets of
observations apart add a label to each row, as a last feature.
"""

from typing import NamedTuple

import numpy as np

from glbandits.maths.vectors import copy_to
from glbandits.numba_support import jittable
from glbandits.records import Floats

FIRST_ROOM = 16


class History(NamedTuple):
    """The rows in use: slices of the state."""

    features: Floats
    """(n, d)."""
    counts: Floats
    """How often each row was seen, (n,)."""
    rewards: Floats
    """Its mean reward, (n,)."""


@jittable
def history_size(room: int, dim: int) -> int:
    """The numbers that a history with room for so many rows takes."""
    return 2 + room * (dim + 2)


def empty_history(dim: int) -> Floats:
    """No observation."""
    empty = np.zeros(history_size(FIRST_ROOM, dim))
    empty[1] = FIRST_ROOM
    return empty


def is_valid_history(state: Floats, place: int, dim: int) -> bool:
    """Whether the rest of this state, from a place on, can be a history."""
    if state.size < place + history_size(FIRST_ROOM, dim):
        return False
    used, room = float(state[place]), float(state[place + 1])
    if not (used.is_integer() and room.is_integer() and 0 <= used <= room):
        return False
    return state.size == place + history_size(int(room), dim)


@jittable
def history(state: Floats, place: int, dim: int) -> History:
    """The rows in use."""
    used, room, start = int(state[place]), int(state[place + 1]), place + 2
    counts = start + room * dim
    return History(
        state[start : start + used * dim].reshape(used, dim),
        state[counts : counts + used],
        state[counts + room : counts + room + used],
    )


@jittable
def remember(state: Floats, place: int, x: Floats, reward: float) -> Floats:
    """Add an observation. Returns the state: a larger copy, if there was no room for a new row."""
    dim, used, start = x.shape[0], int(state[place]), place + 2
    row = find_row(state, start, used, x)
    if row == used and used == int(state[place + 1]):
        state = with_more_room(state, place, dim)
    room = int(state[place + 1])
    counts = start + room * dim
    if row == used:
        copy_to(state[start + row * dim : start + (row + 1) * dim], x)
        state[place] += 1.0
    state[counts + row] += 1.0
    state[counts + room + row] += (reward - state[counts + room + row]) / state[counts + row]
    return state


@jittable
def rows_labelled(state: Floats, place: int, dim: int, first: float, second: float) -> History:
    """A copy of the rows with one of two labels, without it. Their label is the last feature, behind dim others."""
    rows = history(state, place, dim + 1)
    total = 0
    for s in range(rows.counts.shape[0]):
        total += rows.features[s, dim] == first or rows.features[s, dim] == second
    some = History(np.empty((total, dim)), np.empty(total), np.empty(total))
    total = 0
    for s in range(rows.counts.shape[0]):
        if rows.features[s, dim] == first or rows.features[s, dim] == second:
            for i in range(dim):
                some.features[total, i] = rows.features[s, i]
            some.counts[total], some.rewards[total] = rows.counts[s], rows.rewards[s]
            total += 1
    return some


@jittable
def labelled(x: Floats, label: float) -> Floats:
    """A row to remember, with a label behind its features."""
    row = np.empty(x.shape[0] + 1)
    copy_to(row, x)
    row[x.shape[0]] = label
    return row


@jittable
def find_row(state: Floats, start: int, used: int, x: Floats) -> int:
    """The row with these features; the number of rows if there is none."""
    dim = x.shape[0]
    for row in range(used):
        i = 0
        while i < dim and state[start + row * dim + i] == x[i]:
            i += 1
        if i == dim:
            return row
    return used


@jittable
def with_more_room(state: Floats, place: int, dim: int) -> Floats:
    """A copy with twice the room."""
    used, room = int(state[place]), int(state[place + 1])
    more = max(FIRST_ROOM, 2 * room)
    larger = np.zeros(place + history_size(more, dim))
    copy_to(larger, state[:place])
    larger[place], larger[place + 1] = state[place], more
    old, new = place + 2, place + 2
    copy_to(larger[new:], state[old : old + used * dim])
    for part in range(2):
        old, new = place + 2 + room * (dim + part), place + 2 + more * (dim + part)
        copy_to(larger[new:], state[old : old + used])
    return larger
