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
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.extending import register_jitable

Function = TypeVar("Function", bound=Callable[..., Any])

VECTOR = types.float64[::1]
"""A contiguous vector that compiled code may change."""
OPTIONAL_VECTOR: Any = types.Optional(VECTOR)  # type: ignore[no-untyped-call]
READ_VECTOR = types.Array(types.float64, 1, "C", readonly=True)
READ_MATRIX = types.Array(types.float64, 2, "C", readonly=True)
READ_CUBE = types.Array(types.float64, 3, "C", readonly=True)
GENERATOR = types.uint64[::1]
"""The state of a random generator (see `maths.randomness`)."""


def jittable(function: Function) -> Function:
    """Let compiled code call this plain function; it stays a plain function for everybody else."""
    if not (hasattr(function, "py_func") or hasattr(function, "_jittable")):  # not yet known to Numba
        register_jitable(error_model="numpy")(function)
        function._jittable = True  # type: ignore[attr-defined]
    return function


def compile_cached(
    function: Function, *, signature: Any, name: str, cached: bool = True, nogil: bool = True
) -> Function:
    """Compile an entry point for exactly one signature, and keep the machine code on disk.

    An argument of any other type raises a TypeError instead of compiling a second version, which is what
    lets callers try first and convert only when they must. `name` must tell apart all that `function`
    closes over: it names the file in the cache. The digest in it makes an edit anywhere in the package
    miss the cache, because Numba itself looks only at the file of the entry point. `nogil` lets other
    threads run meanwhile; taking the lock back costs 0.1 microseconds, so short calls keep it.
    """
    function.__qualname__ = f"{function.__qualname__}[{name}]({_source_digest()})"
    try:
        compiled: Any = numba.njit([signature], cache=cached, nogil=nogil, error_model="numpy")(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):  # else there is no folder that the cache may be written to
            raise
        compiled = numba.njit([signature], nogil=nogil, error_model="numpy")(function)
    return cast(Function, compiled)


@cache
def _source_digest() -> str:
    digest = sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
