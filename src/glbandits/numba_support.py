"""The one border between Python and compiled code.

Everything that runs once per round is a plain Python function under `@jittable`. Called from Python it runs as plain
Python, so that it can be read, stepped through and tested as it stands. Called from a function that went through
`compile_cached`, Numba compiles it into that function. Both give the same numbers, because neither reorders a sum
(docs/decisions/0001-one-border.md).

Functions that a user wrote are compiled with bounds checks, and so is every function of ours that they call: an index
out of range raises an IndexError instead of corrupting memory (docs/decisions/0014-memory-safety.md).
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

import numba
from numba import types
from numba.core import targetconfig
from numba.core.errors import NumbaError, TypingError
from numba.core.typing.templates import builtin_registry
from numba.extending import intrinsic, overload, register_jitable
from numba.np.unsafe.ndarray import to_fixed_tuple

from glbandits.code_digest import CodeDigest, digest_of_code
from glbandits.errors import InvalidInput

Function = TypeVar("Function", bound=Callable[..., Any])
Array = TypeVar("Array")

VECTOR = types.float64[::1]
"""A contiguous vector that compiled code may change."""
OPTIONAL_VECTOR: Any = types.Optional(VECTOR)  # type: ignore[no-untyped-call]
READ_VECTOR = types.Array(types.float64, 1, "C", readonly=True)
READ_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
READ_CUBE = types.Array(types.float64, 3, "C", readonly=True)
READ_SINGLES = types.Array(types.float32, 2, "C", readonly=True)
READ_PANELS = types.Array(types.float32, 3, "C", readonly=True)
READ_INTS = types.Array(types.int64, 1, "C", readonly=True)
GENERATOR = types.uint64[::1]
"""The state of a random generator (see `maths.philox`)."""

_registered: WeakSet[FunctionType] = WeakSet()


class _InheritedBoundsChecks(Mapping[str, Any]):
    """Compiler options of a function that checks bounds if and only if its caller does.

    Numba compiles a called function once for each set of flags of its caller, but does not hand on this flag itself.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = {**options, "boundscheck": None}

    def __getitem__(self, name: str) -> Any:
        if name != "boundscheck":
            return self._options[name]
        flags = targetconfig.ConfigStack.top_or_none()  # type: ignore[no-untyped-call]
        return bool(flags is not None and flags.boundscheck)

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


def jittable(function: Function) -> Function:
    """Let compiled code call this plain function, which stays a plain function for Python."""
    if isinstance(function, FunctionType) and function not in _registered:
        register_jitable(error_model="numpy")(function)
        _, registered = builtin_registry.globals[-1]
        for template in registered.templates:
            template._jit_options = _InheritedBoundsChecks(template._jit_options)
        _registered.add(function)
    return function


def is_jittable(function: FunctionType) -> bool:
    """Whether compiled code may call this function."""
    return function in _registered


def register_python(function: Function) -> Function:
    """Mark a function that has its own compiled form, made by `numba.extending.overload`."""
    _registered.add(cast(FunctionType, function))
    return function


@register_python
def borrowed(array: Array) -> Array:
    """The same read-only array without reference counts: a slice then costs 10 ns in compiled code, not 30.

    Only entry points may call it, and only on their own parameters, which the Python caller keeps alive. A test reads
    every call (tests/test_borrowed.py), and the compiler refuses arrays that can be written to, such as a state.
    """
    return array


@overload(borrowed)
def _compiled_borrowed(array: Any) -> Any:
    if array.mutable:
        raise TypingError("borrowed() takes read-only arrays only")

    def implementation(array: Any) -> Any:
        return _without_owner(array)  # type: ignore[call-arg]

    return implementation


@intrinsic
def _without_owner(_typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        copy = context.make_array(signature.args[0])(context, builder, arguments[0])
        copy.meminfo = copy.meminfo.type(None)
        copy.parent = copy.parent.type(None)
        return copy._getvalue()

    return array(array), generate


@register_python
def fixed_tuple(values: Any, length: int) -> tuple[Any, ...]:
    """The first `length` values as a tuple; in compiled code `length` must be a constant."""
    return tuple(values[:length])


@overload(fixed_tuple)
def _compiled_fixed_tuple(values: Any, length: int) -> Any:  # noqa: ARG001
    def implementation(values: Any, length: int) -> Any:
        return to_fixed_tuple(values, length)  # type: ignore[call-arg]

    return implementation


def check_reachable(function: FunctionType, owner: str) -> CodeDigest:
    """The digest of all code that `function` reaches. Raises InvalidInput if one of them lacks `@jittable`."""
    digest = digest_of_code(function)
    for reached in digest.functions:
        if not is_jittable(reached):
            raise InvalidInput(
                f"{owner} calls {reached.__qualname__}, which compiled code cannot call. Put @jittable "
                f"(from glbandits.policy) above `def {reached.__name__}` in {reached.__module__}."
            )
    return digest


class EntryName(NamedTuple):
    """What the machine code of an entry point is known by."""

    text: str
    """Its name with the digest of all code that it reaches, so that an edit of any of it gives another name."""
    is_complete: bool
    """Whether the digest knows all of it; if not, the machine code is not kept on disk."""


def entry_name(function: Callable[..., Any], name: str, check_bounds: bool) -> EntryName:
    """Name an entry point. Raises InvalidInput if it reaches a function without `@jittable`."""
    assert isinstance(function, FunctionType)
    known = _names.get(function)
    if known is None:
        digest = check_reachable(function, name)
        checked = ",checked" if check_bounds else ""
        known = EntryName(f"{function.__qualname__}[{name}]({digest.value}{checked})", digest.is_complete)
        _names[function] = known
        function.__qualname__ = known.text  # by which Numba names the files of its cache
    return known


_names: WeakKeyDictionary[FunctionType, EntryName] = WeakKeyDictionary()


def cache_folder(function: Callable[..., Any]) -> Path | None:
    """Where Numba keeps the machine code of an entry point; None if no folder can be written to."""
    try:
        path = numba.njit(cache=True)(function).stats.cache_path
    except RuntimeError:
        return None
    return None if path is None else Path(path)


def compile_cached(
    function: Function, *, signature: Any, name: str, nogil: bool = True, check_bounds: bool = False
) -> Function:
    """Compile an entry point for exactly one signature, and keep the machine code on disk.

    An argument of any other type raises a TypeError instead of compiling a second version, so that callers can try
    first and convert only when they must. `nogil` lets other threads run meanwhile; taking the lock back costs 0.1
    microseconds, so short calls keep it. Raises InvalidInput with Numba's text if the code cannot be compiled.
    """
    is_cachable = entry_name(function, name, check_bounds).is_complete and cache_folder(function) is not None
    options: dict[str, Any] = {
        "nogil": nogil,
        "error_model": "numpy",
        "boundscheck": check_bounds,
        "cache": is_cachable,
    }
    try:
        return cast(Function, numba.njit([signature], **options)(function))
    except NumbaError as error:
        raise InvalidInput(f"{_sentence(str(error), name)}\n\nNumba says:\n{error}") from None


MARKER = "glbandits: "
"""Marks our own sentences inside Numba's texts."""


def _sentence(text: str, name: str) -> str:
    """One sentence for a failed compilation: our own if Numba's text holds one, else what it complains about."""
    for line in text.splitlines():
        if MARKER in line:
            return line[line.index(MARKER) + len(MARKER) :]
    for marker in ("Use of unsupported NumPy function", "Unknown attribute", "Untyped global name", "is not supported"):
        for line in text.splitlines():
            if marker in line:
                complaint = line.strip().removeprefix("- ").rstrip(".")
                return (
                    f"{name} cannot be compiled: {complaint}. Write this step with loops and the math module, or with "
                    "NumPy functions that Numba supports."
                )
    return (
        f"{name} cannot be compiled: Numba supports loops, arithmetic, the math module and a part of NumPy. The text "
        "below names the line."
    )
