import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.maths.feature_table import (
    BITS,
    EMPTY,
    ENTRIES,
    HEADER,
    LARGEST_INDEX,
    empty_table,
    entries_of,
    find,
    has_room,
    home_slot,
    insert_all,
    is_valid_table,
    table_at,
)
from glbandits.records import Floats

WIDTH = 3
START = 2
indices = st.one_of(st.integers(0, 40), st.integers(0, LARGEST_INDEX - 1))


def state_with(features: list[int], state: Floats | None = None) -> Floats:
    state = np.concatenate([[7.0, 8.0], empty_table(WIDTH)]) if state is None else state
    rows = np.empty(len(features), dtype=np.int64)
    return insert_all(state, START, np.array(features, dtype=np.int64), rows, np.array([0.5, 0.0]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(indices, max_size=30), max_size=12))
def test_table_holds_what_a_dict_holds(batches: list[list[int]]) -> None:
    state, expected = state_with([]), dict[int, float]()
    for number, features in enumerate(batches):
        rows = np.empty(len(features), dtype=np.int64)
        state = insert_all(state, START, np.array(features, dtype=np.int64), rows, np.array([0.5, 0.0]))
        for feature, row in zip(features, rows, strict=True):
            state[row + 2] += number + 1
            expected[feature] = expected.get(feature, 0.0) + number + 1
        assert is_valid_table(state, START, WIDTH, LARGEST_INDEX)
    assert state[:START].tolist() == [7.0, 8.0]
    table = table_at(state, START)
    for wanted in (*expected, 41, LARGEST_INDEX - 2):
        offset = find(state, table, wanted)
        assert (offset >= 0) == (wanted in expected)
        assert offset < 0 or state[offset : offset + WIDTH].tolist() == [wanted, 0.5, expected[wanted]]
    assert entries_of(state, START)[:, 0].tolist() == sorted(expected)


def test_size_follows_the_entries_and_not_the_indices() -> None:
    few, many = state_with([2**40 + i for i in range(8)]), state_with(list(range(1000)))
    assert few.size == START + HEADER + WIDTH * 16
    assert many.size == START + HEADER + WIDTH * 2048


@pytest.mark.parametrize("stride", [1, 2**10, 2**20, 2**31, 3 * 2**32])
def test_regular_indices_do_not_pile_up(stride: int) -> None:
    features = [i * stride for i in range(1000)]
    state = state_with(features)
    table = table_at(state, START)
    slots = {int(key): slot for slot, key in enumerate(state[START + HEADER :: WIDTH])}
    distances = [(slots[feature] - home_slot(feature, table.shift)) & table.mask for feature in features]
    assert np.mean(distances) < 8.0


@pytest.mark.parametrize(
    "damage",
    [
        {START + BITS: 5.0},
        {START + BITS: 3.5},
        {START + BITS: 4000.0},
        {START + ENTRIES: 3.0},
        {START + 2: 4.0},
        {"key": -2.0},
        {"key": 1.5},
        {"key": 100.0},
        {"key": 5.0},
        {"key": 9.0},
        {"key": float("nan")},
    ],
    ids=str,
)
def test_damaged_tables_are_refused(damage: dict[int | str, float]) -> None:
    state = state_with([3, 5])
    assert is_valid_table(state, START, WIDTH, 100)
    for where, value in damage.items():
        state[find(state, table_at(state, START), 3) if isinstance(where, str) else where] = value
    assert not is_valid_table(state, START, WIDTH, 100)


def test_table_that_is_too_full_is_refused() -> None:
    state = state_with(list(range(8)))
    for feature in range(8, 16):  # more than half: a search for an absent feature would take long, or never end
        rows = state[START + HEADER :].reshape(-1, WIDTH)
        rows[np.flatnonzero(rows[:, 0] == EMPTY)[0], 0] = feature
    state[START + ENTRIES] = 16.0
    assert not is_valid_table(state, START, WIDTH, 100)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(indices, max_size=30, unique=True), max_size=20), st.integers(100, 500))
def test_state_never_outgrows_its_room(batches: list[list[int]], most_numbers: int) -> None:
    state, known = state_with([]), set[int]()
    for features in batches:
        fits = has_room(state, START, np.array(features, dtype=np.int64), most_numbers)
        allowed = [feature for feature, fit in zip(features, fits, strict=True) if fit]
        assert fits.all() or set(allowed) == known & set(features)
        state = state_with(allowed, state)
        known |= set(allowed)
        assert state.size <= most_numbers
        if not fits.all():
            assert state_with(features, state).size > most_numbers


def test_known_features_do_not_make_a_table_grow() -> None:
    state = state_with(list(range(8)))  # half of the 16 rows
    assert state_with(list(range(8)), state).size == state.size
    assert state_with([*range(8), 9], state).size > state.size
