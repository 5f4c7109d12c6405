"""Types of arrays, and a helper of records that are frozen and validated on creation."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Generator: TypeAlias = NDArray[np.uint64]
"""The state of a random generator: key, stream and counter (see `maths.philox`)."""


def set_validated(record: object, **values: Any) -> None:
    """Set fields of a frozen record. For use in its `__post_init__` only."""
    for name, value in values.items():
        object.__setattr__(record, name, value)
