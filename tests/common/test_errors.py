import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glbandits.common.errors import InvalidInput, Parameter, check_float, check_int, parameter, value_text
from glbandits.features import FeatureMap

MESSAGE = f"no column 'age'. Set {parameter('Columns.context')}, or {parameter('missing', 'impute')}"


def test_error_names_parameters_as_in_python() -> None:
    error = InvalidInput(MESSAGE)
    assert str(error) == "no column 'age'. Set Columns(context=...), or missing='impute'"
    assert error.fields == ("Columns.context", "missing")


def test_interface_names_parameters_in_its_own_way() -> None:
    error = InvalidInput(MESSAGE)
    error.name_parameters(lambda parameter: f"--{parameter.name}")
    assert str(error) == "no column 'age'. Set --context, or --missing"
    error.name_parameters(Parameter.in_python)
    assert str(error) == "no column 'age'. Set --context, or --missing"


def test_quoting_error_keeps_references() -> None:
    quoting = InvalidInput(f"row 3: {InvalidInput(MESSAGE).template}")
    assert quoting.fields == ("Columns.context", "missing")


def test_references_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(InvalidInput(MESSAGE)))
    assert error.fields == ("Columns.context", "missing")


@pytest.mark.parametrize("check", [check_int, check_float])
def test_checks_of_values_carry_the_field(check: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="jobs must be .*; got 'x'") as caught:
        check("jobs", "x", at_least=1)
    assert caught.value.fields == ("jobs",)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.1), "0.1"),
        (np.str_("a"), "'a'"),
        ([np.int64(3), np.bool_(True)], "[3, True]"),
        ({"x": np.float32(0.5)}, "{'x': 0.5}"),
        (0.1, "0.1"),
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


def test_private_use_characters_in_a_message_are_text() -> None:
    error = InvalidInput(f"cannot open '\ue000a\ue001'. Set {parameter('jobs')}")
    assert str(error) == "cannot open '\ue000a\ue001'. Set jobs"
