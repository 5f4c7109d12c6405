"""A hash table inside a policy's state: a few numbers for each feature that was learned, none for the others.

The last part of a state: a header (the binary logarithm of the capacity, the number of entries, the width of a row) and
`capacity` rows. A row is the index of its feature, or EMPTY, and the numbers that a policy keeps for it, so all
numbers of a feature lie together in memory. A feature is in the first row at or behind its home slot that is not
taken (open addressing). At most half of the rows are taken; then the table is copied to one of twice the capacity.
"""

from typing import Any, NamedTuple

import numpy as np

from glbandits.numba_support import jittable
from glbandits.records import Bools, Floats, Ints

BITS, ENTRIES, WIDTH, HEADER = 0, 1, 2, 3
EMPTY = -1.0
FIRST_BITS = 4
LARGEST_INDEX = 2**53
"""Up to this a float64 holds every integer, so it is the largest number of features."""

_FOLD, _LOW_31, _LOW_32, _MULTIPLIER = 31, 0x7FFFFFFF, 0xFFFFFFFF, 0x9E3779B1
"""Multiplicative hashing by the golden ratio; all products fit 63 bits."""


class Table(NamedTuple):
    """Where a table lies in a state. Valid until the table grows."""

    rows: int
    """The offset of the first row."""
    width: int
    shift: int
    mask: int


@jittable
def empty_table(width: int) -> Floats:
    """A table without entries, of so many numbers a row, the index included."""
    table = np.zeros(HEADER + (width << FIRST_BITS))
    table[BITS], table[WIDTH] = FIRST_BITS, width
    for row in range(HEADER, table.shape[0], width):
        table[row] = EMPTY
    return table


@jittable
def table_at(state: Floats, start: int) -> Table:
    """The table whose header begins at `start`."""
    bits = int(state[start + BITS])
    return Table(start + HEADER, int(state[start + WIDTH]), 32 - bits, (1 << bits) - 1)


@jittable
def find(state: Floats, table: Table, feature: int) -> int:
    """The offset of a feature's row, or -1 if it has none."""
    slot, key = home_slot(feature, table.shift), float(feature)
    while True:
        row = table.rows + slot * table.width
        if state[row] == key:
            return row
        if state[row] == EMPTY:
            return -1
        slot = (slot + 1) & table.mask


@jittable
def find_all(state: Floats, table: Table, features: Ints, rows: Ints) -> None:
    """Write the offset of each feature's row, or -1 if it has none.

    Most features are in their home slot. The first loops look there only, without branches, which the processor
    does for several features at a time.
    """
    count, missed = features.shape[0], 0
    misses = np.empty(count, dtype=np.int64)
    for k in range(count):
        rows[k] = table.rows + home_slot(features[k], table.shift) * table.width
    for k in range(count):
        misses[missed] = k
        missed += 0 if state[rows[k]] == float(features[k]) else 1
    for m in range(missed):
        rows[misses[m]] = find(state, table, features[misses[m]])


@jittable
def home_slot(feature: int, shift: int) -> int:
    """The slot where the search for a feature begins."""
    folded = (feature ^ (feature >> _FOLD)) & _LOW_31
    return ((folded * _MULTIPLIER) & _LOW_32) >> shift


@jittable
def insert_all(state: Floats, start: int, features: Ints, rows: Ints, initial: Floats) -> Floats:
    """Write the offset of each feature's row to `rows`; new rows begin as `initial`. Returns the state, maybe larger.

    `initial` has the numbers behind the index. The table must be the last part of the state.
    """
    table = table_at(state, start)
    find_all(state, table, features, rows)
    missing = 0
    for k in range(rows.shape[0]):
        missing += 1 if rows[k] < 0 else 0
    if missing == 0:
        return state
    bits, entries = int(state[start + BITS]), int(state[start + ENTRIES]) + missing
    while 2 * entries > 1 << bits:
        bits += 1
    if bits > int(state[start + BITS]):
        state = resized(state, start, bits)
        table = table_at(state, start)
        find_all(state, table, features, rows)
    for k in range(rows.shape[0]):
        if rows[k] < 0:
            rows[k] = free_or_own_row(state, table, features[k])
            if state[rows[k]] == EMPTY:  # a feature may be given twice
                state[rows[k]] = float(features[k])
                state[start + ENTRIES] += 1.0
                for i in range(initial.shape[0]):
                    state[rows[k] + 1 + i] = initial[i]
    return state


@jittable
def free_or_own_row(state: Floats, table: Table, feature: int) -> int:
    """The offset of a feature's row, or of the row that it would get."""
    slot, key = home_slot(feature, table.shift), float(feature)
    row = table.rows + slot * table.width
    while state[row] != key and state[row] != EMPTY:
        slot = (slot + 1) & table.mask
        row = table.rows + slot * table.width
    return row


@jittable
def resized(state: Floats, start: int, bits: int) -> Floats:
    """A copy of the state whose table has 2^bits rows."""
    old = table_at(state, start)
    copy = np.zeros(start + HEADER + (old.width << bits))
    for i in range(start + HEADER):
        copy[i] = state[i]
    copy[start + BITS] = bits
    for row in range(start + HEADER, copy.shape[0], old.width):
        copy[row] = EMPTY
    new = table_at(copy, start)
    for row in range(old.rows, state.shape[0], old.width):
        if state[row] != EMPTY:
            target = free_or_own_row(copy, new, int(state[row]))
            for i in range(old.width):
                copy[target + i] = state[row + i]
    return copy


def has_room(state: Floats, start: int, features: Ints, most_numbers: int) -> Bools:
    """Which of these features can be inserted into a state of at most so many numbers: all, or those in the table."""
    width = int(state[start + WIDTH])
    room = largest_count(most_numbers - start, width) - int(state[start + ENTRIES])
    if len(features) <= room:
        return np.ones(len(features), dtype=bool)
    there = are_present(state, start, features)
    return there if np.count_nonzero(~there) > room else np.ones_like(there)


def largest_count(most_numbers: int, width: int) -> int:
    """The most entries that a table with rows of this width can have in so many numbers."""
    rows = max(most_numbers - HEADER, 0) // width
    return (1 << rows.bit_length()) // 4


def are_present(state: Floats, start: int, features: Ints) -> Bools:
    """Which of these features are in the table."""
    table = table_at(state, start)
    slots: Any = home_slot(features, table.shift)  # type: ignore[arg-type]  # it takes arrays too
    present, wanted = np.zeros(len(features), dtype=bool), np.arange(len(features))
    while wanted.size:
        stored = state[table.rows + slots * table.width]
        present[wanted] = stored == features[wanted]
        further = (stored != EMPTY) & ~present[wanted]
        slots, wanted = (slots[further] + 1) & table.mask, wanted[further]
    return present


def entries_of(state: Floats, start: int) -> Floats:
    """A copy of the rows that are taken, (entries, width), sorted by feature."""
    rows = state[start + HEADER :].reshape(-1, int(state[start + WIDTH]))
    taken = rows[rows[:, 0] != EMPTY]
    return np.array(taken[np.argsort(taken[:, 0])])


def is_valid_table(state: Any, start: int, width: int, dim: int) -> bool:
    """Whether the end of a state is a table with rows of this width in which every entry can be found."""
    if state.ndim != 1 or state.dtype != np.float64 or state.size < start + HEADER or not np.isfinite(state).all():
        return False
    bits, entries = state[start + BITS], state[start + ENTRIES]
    if state[start + WIDTH] != width or bits not in range(FIRST_BITS, 33):
        return False
    if state.size != start + HEADER + (width << int(bits)):
        return False
    rows = state[start + HEADER :].reshape(-1, width)
    slots = np.flatnonzero(rows[:, 0] != EMPTY)
    keys = rows[slots, 0]
    if len(slots) != entries or 2 * len(slots) > len(rows) or np.unique(keys).size < len(keys):
        return False
    if not ((keys >= 0) & (keys < dim) & (keys == np.floor(keys))).all():
        return False
    return _are_found(slots, keys.astype(np.int64), int(bits))


def _are_found(slots: Ints, keys: Ints, bits: int) -> bool:
    """Whether no row between the home slot of a feature and its own is empty."""
    capacity = 1 << bits
    taken = np.zeros(2 * capacity, dtype=np.int64)
    taken[slots] = taken[slots + capacity] = 1
    before = np.concatenate([[0], np.cumsum(taken)])
    home: Any = home_slot(keys, 32 - bits)  # type: ignore[arg-type]  # it takes arrays too
    end = np.where(slots >= home, slots, slots + capacity)
    return bool((before[end] - before[home] == end - home).all())
