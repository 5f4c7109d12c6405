"""Arguments of plain Python functions, as machine code would take them."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numba import types


def arrays_of(values: Iterable[Any]) -> Iterator[Any]:
    """Yield all arrays among these values, and in tuples among them."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from arrays_of(value)


def as_typed(value: Any, kind: Any) -> Any:
    """Return the argument as machine code receives it. Raises TypeError, as machine code does, for another type."""
    if hasattr(kind, "types"):  # of a tuple
        return tuple(as_typed(part, part_kind) for part, part_kind in zip(value, kind.types, strict=True))
    if isinstance(kind, types.Array):
        is_valid = (
            isinstance(value, np.ndarray)
            and value.dtype == np.dtype(str(kind.dtype))
            and value.ndim == kind.ndim
            and value.flags.c_contiguous
            and (value.flags.writeable or not kind.mutable)
        )
        if not is_valid:
            raise TypeError(f"no matching definition: expected an array of type {kind}")
        return value
    return float(value) if kind == types.float64 else value
