"""Checks of numbers in compiled code: a few hundred nanoseconds where NumPy takes microseconds."""

from collections.abc import Callable
from functools import cache

from numba import types

from glbandits.bandit.entries import usable
from glbandits.numba_support import READ_MATRIX, compile_cached
from glbandits.records import Floats


@cache
def fits_entry() -> Callable[[Floats, int], bool]:
    """A function that says whether arms are (K, dim) of usable numbers. Arrays of another type raise a TypeError."""

    def fits(arms: Floats, dim: int) -> bool:
        return arms.shape[0] > 0 and arms.shape[1] == dim and usable(arms)

    return compile_cached(fits, signature=types.boolean(READ_MATRIX, types.int64), name="arms", nogil=False)
