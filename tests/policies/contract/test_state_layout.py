from typing import Any

import numpy as np
import pytest

from glbandits import InvalidInput
from glbandits.policies.contract import StateLayout


def example() -> StateLayout:
    layout = StateLayout()
    layout.count("learned")
    layout.scalar("energy", at_least=-1.0)
    layout.vector("theta")
    layout.factor("R")
    layout.matrix("P")
    layout.history(extra=2)
    return layout


def test_parts_follow_each_other_without_gaps() -> None:
    state = example().allocate(3, R=4.0, P=9.0, theta=0.5)
    parts = example().parts(state, 3)
    assert {name: part.size for name, part in parts.items()} == {
        "learned": 1,
        "energy": 1,
        "theta": 3,
        "R": 9,
        "P": 9,
    }
    np.testing.assert_array_equal(parts["R"].reshape(3, 3), 2.0 * np.eye(3))
    np.testing.assert_array_equal(parts["P"].reshape(3, 3), 9.0 * np.eye(3))
    np.testing.assert_array_equal(np.concatenate(list(parts.values())), state[:23])


@pytest.mark.parametrize(
    ("part", "index", "value"),
    [
        ("learned", 0, 1.5),
        ("learned", 0, -1.0),
        ("energy", 0, -2.0),
        ("R", 0, 0.0),
        ("P", 4, -1.0),
        ("theta", 2, np.nan),
    ],
)
def test_state_with_an_impossible_value_is_invalid(part: str, index: int, value: float) -> None:
    layout = example()
    state = layout.allocate(3, R=4.0, P=9.0)
    assert layout.is_valid(state, 3)
    layout.parts(state, 3)[part][index] = value
    assert not layout.is_valid(state, 3)


def test_state_of_another_size_type_or_shape_is_invalid() -> None:
    layout = example()
    state = layout.allocate(3, R=4.0, P=9.0)
    others: list[Any] = [state[:-1], np.append(state, 0.0), state[np.newaxis], state.astype(np.float32), state[:5]]
    for other in others:
        assert not layout.is_valid(other, 3)
    assert not layout.is_valid(state, 4)


def test_layout_can_begin_with_the_parts_of_another() -> None:
    base = example()
    longer = StateLayout(base)
    more_of = longer.vector("more")
    state = longer.allocate(3, R=4.0, P=9.0, more=7.0)
    np.testing.assert_array_equal(more_of(state, 3), [7.0, 7.0, 7.0])
    np.testing.assert_array_equal(state[:23], base.allocate(3, R=4.0, P=9.0)[:23])


def test_declarations_out_of_order_are_rejected() -> None:
    layout = StateLayout()
    layout.vector("theta")
    with pytest.raises(InvalidInput, match="declare the scalar 'late' before vectors"):
        layout.scalar("late")
    layout.history()
    with pytest.raises(InvalidInput, match="declare 'late' before the history"):
        layout.vector("late")


def test_state_above_the_memory_limit_is_rejected() -> None:
    layout = StateLayout()
    layout.matrix("P")
    with pytest.raises(InvalidInput, match="the state would hold 1,000,000,000,000 numbers"):
        layout.allocate(10**6)
