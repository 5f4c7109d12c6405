import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glbandits.common.errors import InvalidInput, check_float, check_int, value_text
from glbandits.features import FeatureMap


def test_field_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(InvalidInput("no column 'age'", field="Columns.context")))
    assert (str(error), error.field) == ("no column 'age'", "Columns.context")


@pytest.mark.parametrize("check", [check_int, check_float])
def test_checks_of_values_carry_the_field(check: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="jobs must be .*; got 'x'") as caught:
        check("jobs", "x", at_least=1)
    assert caught.value.field == "jobs"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.1), "0.1"),
        ([np.int64(3), np.bool_(True)], "[3, True]"),
        ("x" * 100, "'" + "x" * 59),
    ],
)
def test_messages_show_numpy_scalars_as_plain_values(value: object, text: str) -> None:
    assert value_text(value) == text


def test_column_with_mixed_types_shows_plain_values() -> None:
    with pytest.raises(InvalidInput, match=r"contains numbers and text \(0\.1 and 'b'\)"):
        FeatureMap.learn({"c": [np.float64(0.1), "b"]}, context=("c",))


def test_check_of_a_number_shows_a_plain_value() -> None:
    with pytest.raises(InvalidInput, match=r"at least 1; got 0$"):
        check_int("jobs", np.int64(0), at_least=1)


def test_value_of_several_lines_is_one_line_in_a_message() -> None:
    assert value_text(np.eye(2)) == "array([[1., 0.], [0., 1.]])"
    assert value_text("two\n  lines") == r"'two\n  lines'"
