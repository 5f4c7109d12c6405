"""Code that Numba cannot compile: the error names cause, function and line, and says how to do without Numba."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import types
from sklearn.linear_model import SGDRegressor

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import VECTOR, jittable
from glbandits.compilation.recipe import Recipe, compile_now

MODEL = SGDRegressor()
NOTES: dict[int, float] = {}


def use_object(values: Floats) -> float:
    return float(MODEL.predict(values)[0])


def use_dict(values: Floats) -> float:
    NOTES[0] = float(values[0])
    return 0.0


def use_import(values: Floats) -> float:
    import scipy

    return float(scipy.special.expit(values[0]))


def use_file(values: Floats) -> float:
    with open("notes.txt") as file:  # noqa: PTH123
        return float(values[int(file.read())])


def use_exceptions(values: Floats) -> float:
    try:
        return float(values[0])
    except ValueError:
        return 0.0


def use_generators(values: Floats) -> float:
    return float(sum(value for value in values))


def use_random_numbers(values: Floats) -> float:
    return float(values[0] + np.random.default_rng(1).normal())


@jittable
def grow(depth: int, values: tuple[Any, ...]) -> float:
    return 0.0 if depth == 0 else grow(depth - 1, (values, values))


def use_endless_types(values: Floats) -> float:
    return grow(2, (values,))


CODE: dict[Callable[..., Any], tuple[str, str]] = {
    use_object: ("it uses 'MODEL', of type sklearn.*SGDRegressor, which Numba does not know", "return float"),
    use_dict: ("it uses 'NOTES', of type dict, which", r"NOTES\[0\] = "),
    use_import: (r"Use of unsupported opcode \(IMPORT_NAME\) found", "import scipy"),
    use_file: (r"The 'with \(context manager\) as \(variable\):' construct is not supported", ""),
    use_exceptions: ("Exception matching is limited to <class 'Exception'>", "except ValueError:"),
    use_generators: ("The use of yield in a closure is unsupported", "return float"),
    use_random_numbers: ("Unknown attribute 'default_rng'", "return float"),
    use_endless_types: ("maximum recursion depth exceeded", ""),
}


@pytest.mark.parametrize("function", CODE, ids=lambda function: function.__name__)
def test_error_names_cause_function_and_line(function: Any) -> None:
    cause, line = CODE[function]
    called = jittable(function)

    def entry(values: Floats) -> float:
        return called(values)  # type: ignore[no-any-return]

    with pytest.raises(InvalidInput) as raised:
        compile_now(Recipe(entry, types.float64(VECTOR), "mine, logistic", check_bounds=True))
    message = str(raised.value)
    place = rf"in {function.__name__}, line \d+ of \S+test_compile_errors.py \({line}.*\)" if line else "in .*use_.*"
    advice = r"Use loops, .*, or write the policy as an agent, .* \(docs/write-a-policy.md\)\."
    assert re.fullmatch(f"mine, logistic cannot be compiled: .*{cause}.*, {place}. {advice}", message)
    assert raised.value.__notes__[0].startswith("Numba says:\n")
