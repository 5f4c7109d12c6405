"""The one border between Python and compiled code.

Everything that runs once per round is written as a plain Python function under `@jittable`. Called from
Python it runs as plain Python, so that it can be read, stepped through and tested as it stands. Called from
a function that went through `compile_cached`, Numba compiles it into that function. The two give the same
numbers, because neither reorders a sum (docs/decisions/0001-one-border.md).
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast
from weakref import WeakSet

import numba
from numba import types
from numba.core.errors import NumbaError
from numba.extending import intrinsic, overload, register_jitable

from glbandits.errors import InvalidInput

Function = TypeVar("Function", bound=Callable[..., Any])
Array = TypeVar("Array")

VECTOR = types.float64[::1]
"""A contiguous vector that compiled code may change."""
OPTIONAL_VECTOR: Any = types.Optional(VECTOR)  # type: ignore[no-untyped-call]
READ_VECTOR = types.Array(types.float64, 1, "C", readonly=True)
READ_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
READ_CUBE = types.Array(types.float64, 3, "C", readonly=True)
READ_INTS = types.Array(types.int64, 1, "C", readonly=True)
GENERATOR = types.uint64[::1]
"""The state of a random generator (see `maths.randomness`)."""


_known: WeakSet[FunctionType] = WeakSet()


def jittable(function: Function) -> Function:
    """Let compiled code call this plain function; it stays a plain function for everybody else."""
    if isinstance(function, FunctionType) and function not in _known:  # Numba knows builtins and compiled functions
        register_jitable(error_model="numpy")(function)
        _known.add(function)
    return function


def borrowed(array: Array) -> Array:
    """The same array, without an owner. Compiled code then counts no references for its slices: 10 ns each, not 30.

    Never return or keep what is sliced from it; the array itself must outlive it.
    """
    return array


@overload(borrowed)
def _compiled_borrowed(array: Any) -> Any:  # noqa: ARG001
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


def compile_cached(
    function: Function, *, signature: Any, name: str, cached: bool = True, nogil: bool = True
) -> Function:
    """Compile an entry point for exactly one signature, and keep the machine code on disk.

    An argument of any other type raises a TypeError instead of compiling a second version, which is what
    lets callers try first and convert only when they must. `name` must tell apart all that `function`
    closes over: it names the file in the cache. The digest in it makes an edit of anything that is compiled
    miss the cache, because Numba itself looks only at the file of the entry point. `nogil` lets other
    threads run meanwhile; taking the lock back costs 0.1 microseconds, so short calls keep it.
    """
    function.__qualname__ = f"{function.__qualname__}[{name}]({_source_digest()})"
    try:
        try:
            compiled: Any = numba.njit([signature], cache=cached, nogil=nogil, error_model="numpy")(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):  # else there is no folder that the cache may be written to
                raise
            compiled = numba.njit([signature], nogil=nogil, error_model="numpy")(function)
    except NumbaError as error:
        raise InvalidInput(
            f"a policy, link or noise must be written so that Numba can compile it; {name} is not:\n{error}"
        ) from None
    return cast(Function, compiled)


COMPILED_SOURCES = (
    "compiled.py",
    "contract.py",
    "errors.py",
    "maths",
    "estimators",
    "policies",
    "bandit/entries.py",
    "simulation/loop.py",
    "environments/noise.py",
    "environments/synthetic.py",
)
"""What compiled code is made of. An edit elsewhere, of a command or a report, leaves the cache as it is."""


@cache
def _source_digest() -> str:
    root, digest = Path(__file__).parent, sha256()
    for name in COMPILED_SOURCES:
        path = root / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(source.read_bytes())
    return digest.hexdigest()[:12]
