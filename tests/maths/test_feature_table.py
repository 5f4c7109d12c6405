import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.common.arrays import Floats
from glbandits.maths.feature_table import (
    BITS,
    EMPTY,
    ENTRIES,
    HEADER,
    LARGEST_INDEX,
    empty_table,
    entries_of,
    find,
    find_all,
    has_room,
    home_slot,
    insert_all,
    is_valid_table,
    table_at,
)

WIDTH = 3
START = 2
indices = st.one_of(st.integers(0, 40), st.integers(0, LARGEST_INDEX - 1))


def state_with(features: list[int], state: Floats | None = None) -> Floats:
    state = np.concatenate([[7.0, 8.0], empty_table(WIDTH)]) if state is None else state
    rows = np.empty(len(features), dtype=np.int64)
    return insert_all(state, START, np.array(features, dtype=np.int64), rows, np.array([0.5, 0.0]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(indices, max_size=30), max_size=12))
def test_table_equals_a_dict(batches: list[list[int]]) -> None:
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
    searched_features = [*expected, 41, LARGEST_INDEX - 2]
    offsets = np.empty(len(searched_features), dtype=np.int64)
    find_all(state, table, np.array(searched_features), offsets)
    for feature, offset in zip(searched_features, offsets, strict=True):
        assert offset == find(state, table, feature)
        assert (offset >= 0) == (feature in expected)
        assert offset < 0 or state[offset : offset + WIDTH].tolist() == [feature, 0.5, expected[feature]]
    assert entries_of(state, START)[:, 0].tolist() == sorted(expected)


def test_size_depends_on_entries_and_not_on_indices() -> None:
    few, many = state_with([2**40 + i for i in range(8)]), state_with(list(range(1000)))
    assert few.size == START + HEADER + WIDTH * 16
    assert many.size == START + HEADER + WIDTH * 2048


@pytest.mark.parametrize("stride", [1, 2**10, 2**20, 2**31, 3 * 2**32])
def test_regular_indices_do_not_cluster(stride: int) -> None:
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
def test_damaged_tables_are_invalid(damage: dict[int | str, float]) -> None:
    state = state_with([3, 5])
    assert is_valid_table(state, START, WIDTH, 100)
    for position, value in damage.items():
        state[find(state, table_at(state, START), 3) if isinstance(position, str) else position] = value
    assert not is_valid_table(state, START, WIDTH, 100)


def test_overfull_table_is_invalid() -> None:
    state = state_with(list(range(8)))
    for feature in range(8, 16):  # more than half: a search for an absent feature would take long, or never end
        rows = state[START + HEADER :].reshape(-1, WIDTH)
        rows[np.flatnonzero(rows[:, 0] == EMPTY)[0], 0] = feature
    state[START + ENTRIES] = 16.0
    assert not is_valid_table(state, START, WIDTH, 100)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(indices, max_size=30, unique=True), max_size=20), st.integers(100, 500))
def test_state_stays_within_its_maximum_size(batches: list[list[int]], max_size: int) -> None:
    state, known = state_with([]), set[int]()
    for features in batches:
        fits = has_room(state, START, np.array(features, dtype=np.int64), max_size)
        allowed = [feature for feature, fit in zip(features, fits, strict=True) if fit]
        assert fits.all() or set(allowed) == known & set(features)
        state = state_with(allowed, state)
        known |= set(allowed)
        assert state.size <= max_size
        if not fits.all():
            assert state_with(features, state).size > max_size


def test_known_features_do_not_enlarge_the_table() -> None:
    state = state_with(list(range(8)))  # half of the 16 rows
    assert state_with(list(range(8)), state).size == state.size
    assert state_with([*range(8), 9], state).size > state.size
