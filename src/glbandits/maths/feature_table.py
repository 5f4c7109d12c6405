"""A hash table inside a policy's state, with a few numbers for each feature that was learned.

The table is the last part of a state. It consists of a header (the binary logarithm of the capacity, the number of
entries, the width of a row) and `capacity` rows. The first number of a row is the index of its feature, or EMPTY. The
other numbers belong to the policy. All numbers of a feature are therefore adjacent in memory.

The table uses open addressing with linear probing: a feature is in the first free row from its home slot on. At most
half of the rows are occupied. Before that limit is exceeded, the table is copied to one of twice the capacity.
"""

from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.compilation.numba_support import jittable

BITS, ENTRIES, WIDTH, HEADER = 0, 1, 2, 3
"""Offsets in the header, and its length."""
EMPTY = -1.0
FIRST_BITS = 4
"""The binary logarithm of the capacity of a new table."""
LARGEST_INDEX = 2**53
"""The limit of the number of features: a float64 represents every integer up to it."""

_FOLD, _LOW_31, _LOW_32, _MULTIPLIER = 31, 0x7FFFFFFF, 0xFFFFFFFF, 0x9E3779B1
"""Multiplicative hashing by the golden ratio; all products fit 63 bits."""


class Table(NamedTuple):
    """The position of a table in a state. Valid until the table grows."""

    rows: int
    """The offset of the first row in the state."""
    width: int
    """The length of a row."""
    shift: int
    """The right shift of a 32-bit hash that gives a slot."""
    mask: int
    """The capacity minus 1."""


@jittable
def empty_table(width: int) -> Floats:
    """Return a table without entries. `width` is the length of a row, including the index."""
    table = np.zeros(HEADER + (width << FIRST_BITS))
    table[BITS], table[WIDTH] = FIRST_BITS, width
    for row in range(HEADER, table.shape[0], width):
        table[row] = EMPTY
    return table


@jittable
def table_at(state: Floats, start: int) -> Table:
    """Return the position of the table whose header starts at `start`."""
    bits = int(state[start + BITS])
    return Table(start + HEADER, int(state[start + WIDTH]), 32 - bits, (1 << bits) - 1)


@jittable
def find(state: Floats, table: Table, feature: int) -> int:
    """Return the offset of a feature's row; -1 if the table does not have the feature."""
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
    """Write the offset of each feature's row to `rows`; -1 if the table does not have the feature.

    Most features are in their home slot. The first two loops look there only. They have no branches, so the processor
    handles several features at a time.
    """
    count, miss_count = features.shape[0], 0
    misses = np.empty(count, dtype=np.int64)
    for k in range(count):
        rows[k] = table.rows + home_slot(features[k], table.shift) * table.width
    for k in range(count):
        misses[miss_count] = k
        miss_count += 0 if state[rows[k]] == float(features[k]) else 1
    for m in range(miss_count):
        rows[misses[m]] = find(state, table, features[misses[m]])


@jittable
def home_slot(feature: int, shift: int) -> int:
    """Return the slot where the search for a feature starts."""
    folded = (feature ^ (feature >> _FOLD)) & _LOW_31
    return ((folded * _MULTIPLIER) & _LOW_32) >> shift


@jittable
def insert_all(state: Floats, start: int, features: Ints, rows: Ints, initial: Floats) -> Floats:
    """Insert the features that the table lacks, and write the offset of each feature's row to `rows`.

    A new row consists of the index and the numbers in `initial`. Returns the state, which may be a larger array. The
    table must be the last part of the state.
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
            if state[rows[k]] == EMPTY:  # otherwise it occurs twice in `features`
                state[rows[k]] = float(features[k])
                state[start + ENTRIES] += 1.0
                for i in range(initial.shape[0]):
                    state[rows[k] + 1 + i] = initial[i]
    return state


@jittable
def free_or_own_row(state: Floats, table: Table, feature: int) -> int:
    """Return the offset of a feature's row; if it has none, of the row that an insertion would use."""
    slot, key = home_slot(feature, table.shift), float(feature)
    row = table.rows + slot * table.width
    while state[row] != key and state[row] != EMPTY:
        slot = (slot + 1) & table.mask
        row = table.rows + slot * table.width
    return row


@jittable
def resized(state: Floats, start: int, bits: int) -> Floats:
    """Return a copy of the state whose table has 2^bits rows."""
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


def has_room(state: Floats, start: int, features: Ints, max_size: int) -> Bools:
    """Whether each feature can be inserted without making the state larger than `max_size` numbers.

    True for all features if there is room for all. Otherwise only for features that are in the table.
    """
    width = int(state[start + WIDTH])
    room = largest_count(max_size - start, width) - int(state[start + ENTRIES])
    if len(features) <= room:
        return np.ones(len(features), dtype=bool)
    present = are_present(state, start, features)
    return present if np.count_nonzero(~present) > room else np.ones_like(present)


def largest_count(max_size: int, width: int) -> int:
    """Return the largest number of entries of a table of at most `max_size` numbers, with rows of this width."""
    rows = max(max_size - HEADER, 0) // width
    return (1 << rows.bit_length()) // 4


def are_present(state: Floats, start: int, features: Ints) -> Bools:
    """Whether each feature is in the table."""
    table = table_at(state, start)
    slots: Any = home_slot(features, table.shift)  # type: ignore[arg-type]  # it also accepts arrays
    present, unresolved = np.zeros(len(features), dtype=bool), np.arange(len(features))
    while unresolved.size:
        keys = state[table.rows + slots * table.width]
        present[unresolved] = keys == features[unresolved]
        continues = (keys != EMPTY) & ~present[unresolved]
        slots, unresolved = (slots[continues] + 1) & table.mask, unresolved[continues]
    return present


def entries_of(state: Floats, start: int) -> Floats:
    """Return a copy of the occupied rows, (entries, width), sorted by feature."""
    rows = state[start + HEADER :].reshape(-1, int(state[start + WIDTH]))
    occupied = rows[rows[:, 0] != EMPTY]
    return np.array(occupied[np.argsort(occupied[:, 0])])


def is_valid_table(state: Any, start: int, width: int, dim: int) -> bool:
    """Whether the end of a state is a valid table with rows of this width and features below `dim`.

    In a valid table a search finds every entry, and every search ends.
    """
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
    return _are_reachable(slots, keys.astype(np.int64), int(bits))


def _are_reachable(slots: Ints, features: Ints, bits: int) -> bool:
    """Whether all rows between the home slot of each feature and its slot are occupied."""
    capacity = 1 << bits
    occupied = np.zeros(2 * capacity, dtype=np.int64)  # twice, because a search continues at slot 0 after the last one
    occupied[slots] = occupied[slots + capacity] = 1
    occupied_before = np.concatenate([[0], np.cumsum(occupied)])
    home: Any = home_slot(features, 32 - bits)  # type: ignore[arg-type]  # it also accepts arrays
    end = np.where(slots >= home, slots, slots + capacity)
    return bool((occupied_before[end] - occupied_before[home] == end - home).all())
