"""The interface to Numba: `@jittable` functions, and compilation of entry points.

A function that runs once per round is a plain Python function under `@jittable`. Python calls it as plain Python, so
it can be read, debugged and tested without a compiler. If an entry point that was compiled by `compile_cached` calls
it, Numba compiles it into that entry point. Both give the same numbers, because neither reorders a sum
(docs/decisions/0001-one-border.md).

User-written functions are compiled with bounds checks, and so is every function of the package that they call. An index
out of range then raises an IndexError instead of corrupting memory (docs/decisions/0014-memory-safety.md).
"""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast
from weakref import WeakSet

from numba import TypingError, types
from numba.extending import overload

from glbandits.common.code_references import is_own
from glbandits.common.errors import InvalidInput
from glbandits.compilation.code_digest import CodeDigest, digest_of_code
from glbandits.compilation.private_numba import BOUNDS_CHECKS_OF_CALLER, IS_KNOWN, NO_C_WRAPPER, without_owner

Function = TypeVar("Function", bound=Callable[..., Any])
Array = TypeVar("Array")

VECTOR = types.float64[::1]
"""A contiguous vector that compiled code may change."""
OPTIONAL_VECTOR: Any = types.Optional(VECTOR)  # type: ignore[no-untyped-call]
MATRIX = types.float64[:, ::1]
READ_VECTOR = types.Array(types.float64, 1, "C", readonly=True)
READ_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
READ_CUBE = types.Array(types.float64, 3, "C", readonly=True)
READ_INTS = types.Array(types.int64, 1, "C", readonly=True)
READ_ROWS: Any = types.Tuple([READ_INTS, READ_INTS, READ_VECTOR])  # type: ignore[no-untyped-call]
"""The arrays of `maths.sparse_rows.SparseRows` as a plain tuple: passing a named one takes 1 microsecond more."""
READ_ROW: Any = types.Tuple([*READ_ROWS, types.int64])  # type: ignore[no-untyped-call]
"""The same with the index of one row."""
GENERATOR = types.uint64[::1]
"""The state of a random generator (see `maths.philox`)."""

OPTIONS_OF_CALLEES: Any = {"error_model": "numpy", "boundscheck": BOUNDS_CHECKS_OF_CALLER, **NO_C_WRAPPER}
"""Numba's options for functions that are compiled into their caller."""
_registered: WeakSet[FunctionType] = WeakSet()


def jittable(function: Function) -> Function:
    """Decorator: let compiled code call this function. For Python it stays a plain function."""
    if isinstance(function, FunctionType) and function not in _registered:
        let_compiled_code_call(function, lambda *_types, **_named_types: function)
    return function


def by_type(kind: type, other: Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorator, instead of `jittable`: call `other` if the type of an argument is this class of tuples.

    Compiled code decides at compile time.
    """

    def decorate(function: Function) -> Function:
        def chosen(*arguments: Any) -> Any:
            return (other if any(type(value) is kind for value in arguments) else function)(*arguments)

        def compiled(*numba_types: Any) -> Any:
            return other if any(_tuple_class(numba_type) is kind for numba_type in numba_types) else function

        jittable(function)
        let_compiled_code_call(cast(FunctionType, chosen), compiled)
        return cast(Function, wraps(function)(chosen))

    return decorate


def _tuple_class(kind: Any) -> Any:
    """Return the Python class of a Numba type of tuples; None for other types."""
    return tuple if isinstance(kind, types.BaseAnonymousTuple) else getattr(kind, "instance_class", None)


def let_compiled_code_call(function: FunctionType, implementation: Callable[..., Any]) -> None:
    """Register a function. `implementation` takes Numba types and returns the function to compile for them."""
    overload(function, jit_options=OPTIONS_OF_CALLEES, strict=False)(implementation)
    _registered.add(function)


def is_jittable(function: FunctionType) -> bool:
    """Return whether compiled code may call this function."""
    return function in _registered


def register_python(function: Function) -> Function:
    """Decorator: mark a function whose compiled form is defined by `numba.extending.overload`."""
    _registered.add(cast(FunctionType, function))
    return function


@register_python
def borrowed(array: Array) -> Array:
    """Return the same read-only array, or tuple of arrays, as a borrowed reference, without reference counting.

    In compiled code a slice of it takes 10 ns instead of 30. Only entry points may call this function, and only on
    their own parameters, which the Python caller keeps alive. tests/test_borrowed.py checks every call. The compiler
    rejects writable arrays, such as a state.
    """
    return array


@overload(borrowed)
def _compiled_borrowed(array: Any) -> Any:
    if any(getattr(part, "mutable", False) for part in getattr(array, "types", [array])):
        raise TypingError("borrowed() takes read-only arrays only")

    def counted(array: Any) -> Any:
        return array

    def uncounted(array: Any) -> Any:
        return without_owner(array)  # type: ignore[call-arg]

    return uncounted if IS_KNOWN else counted


def check_reachable(function: FunctionType, owner: str) -> CodeDigest:
    """Return the digest of all code that `function` calls, directly or indirectly.

    Raises InvalidInput if a called function lacks `@jittable`. `owner` names the caller in the message.
    """
    digest = digest_of_code(function)
    for called in digest.functions:
        if not is_jittable(called):
            raise InvalidInput(
                f"{owner} calls {called.__qualname__}, which compiled code cannot call. {_advice(called)}"
            )
    return digest


def _advice(called: FunctionType) -> str:
    if not is_own(called):
        return f"It is a function of {called.__module__.partition('.')[0]}. {ADVICE}"
    return (
        f"Put @jittable (from glbandits.policies.contract) above `def {called.__name__}` in {called.__module__}. "
        "If Numba cannot compile it, write the policy as an agent (docs/write-a-policy.md)."
    )


ADVICE = (
    "Use loops, the math module and NumPy functions that Numba supports, or write the policy as an agent, a Python "
    "class that may call any library (docs/write-a-policy.md)."
)
"""What to do about code that cannot be compiled."""
MARKER = "glbandits: "
"""Prefix of our own messages inside Numba's error texts."""
