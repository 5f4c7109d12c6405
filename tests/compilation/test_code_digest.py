import math
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from glbandits.compilation.code_digest import digest_of_code

STEP = 2.0
TABLE = np.arange(3.0)


def double(x: float) -> float:
    return x * STEP


def entry(x: float) -> float:
    return double(x) + math.sqrt(x) + float(TABLE[0])


def copy_with(function: Any, **globals_: Any) -> Any:
    """The same function with other globals."""
    return FunctionType(function.__code__, function.__globals__ | globals_, function.__name__)


def test_constant_in_a_called_function_changes_the_digest() -> None:
    other = copy_with(entry, double=copy_with(double, STEP=3.0))
    assert digest_of_code(entry).value != digest_of_code(other).value
    assert digest_of_code(entry).value == digest_of_code(copy_with(entry)).value


def test_global_array_changes_the_digest() -> None:
    assert digest_of_code(entry).value != digest_of_code(copy_with(entry, TABLE=np.arange(3.0) + 1)).value


def test_closure_changes_the_digest() -> None:
    def made(scale: float) -> Any:
        return lambda x: x * scale

    assert digest_of_code(made(1.0)).value != digest_of_code(made(2.0)).value
    assert digest_of_code(made(1.0)).value == digest_of_code(made(1.0)).value


def test_unknown_object_makes_the_digest_incomplete() -> None:
    assert digest_of_code(entry).is_complete
    assert not digest_of_code(copy_with(entry, TABLE=object())).is_complete


def test_module_in_a_closure_is_followed() -> None:
    def made(step: float) -> Any:
        module: Any = ModuleType("module")
        module.double, module.TABLE = copy_with(double, STEP=step), (step,)
        return [lambda x: module.double(x), lambda: module.TABLE[0]]

    for one, two in zip(made(2.0), made(3.0), strict=True):
        assert digest_of_code(one).value != digest_of_code(two).value
        assert digest_of_code(one).is_complete
    assert digest_of_code(made(2.0)[0]).functions[0].__name__ == "double"


def test_module_that_is_not_followed_makes_the_digest_incomplete() -> None:
    def alias(x: float) -> float:
        module = math
        return module.sqrt(x)

    def by_name(x: float) -> float:
        return float(getattr(math, "sqrt")(x))  # noqa: B009

    assert not digest_of_code(alias).is_complete
    assert not digest_of_code(by_name).is_complete


def test_called_functions_are_listed() -> None:
    digest = digest_of_code(entry)
    assert [function.__name__ for function in digest.functions] == ["double"]


def test_recursion_ends() -> None:
    def countdown(n: int) -> int:
        return countdown(n - 1) if n else 0

    assert countdown(3) == 0
    assert digest_of_code(countdown).functions == ()
