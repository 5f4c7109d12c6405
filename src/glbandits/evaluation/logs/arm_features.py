"""Features of the arms of a log.

Arms are the same in every row (`FixedArms`), different in every row (`RowArms`), or combined with a context
(`CrossedArms`).

All classes implement `ArmFeatures`: the number of rows, the number of arms of each row, and the features of the arms.
Features are computed on request, one block of rows at a time. `SparseArms` is a fourth class, in its own module.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.features.feature_map.combination import Combination, Part

Record = TypeVar("Record")
RowIndex: TypeAlias = slice | Ints | NDArray[np.bool_]


@runtime_checkable
class ArmFeatures(Protocol):
    """The arms of consecutive rows."""

    @property
    def dim(self) -> int:
        """Number of features of an arm."""

    @property
    def max_arms(self) -> int:
        """Largest number of arms in a row."""

    @property
    def counts(self) -> Ints:
        """Number of arms of each row, (n,)."""

    @property
    def same_arms(self) -> bool:
        """Whether all rows have the same arms in the same order. Features may differ between rows."""

    def __len__(self) -> int:
        """Number of rows."""

    def __getitem__(self, rows: RowIndex) -> Self:
        """Select rows."""

    def features(self) -> Floats:
        """Features of all arms of all rows, (n, max_arms, dim), padded with 0."""


@dataclass(frozen=True, eq=False)
class FixedArms:
    """The same arms in every row."""

    arms: Floats
    """(K, dim)."""
    rows: int
    """Number of rows."""
    same_arms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_validated(self, arms=check_array("arms", self.arms, 2))
        if not len(self.arms):
            raise InvalidInput("arms must have at least one row, one for each arm; got none")

    @property
    def dim(self) -> int:
        return int(self.arms.shape[1])

    @property
    def max_arms(self) -> int:
        return len(self.arms)

    @property
    def counts(self) -> Ints:
        return np.full(self.rows, self.max_arms, dtype=np.int64)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: RowIndex) -> "FixedArms":
        return copy_with(self, rows=len(np.empty(self.rows, dtype=np.int8)[rows]))

    def features(self) -> Floats:
        return np.ascontiguousarray(np.broadcast_to(self.arms, (self.rows, *self.arms.shape)))


@dataclass(frozen=True, eq=False)
class RowArms:
    """Arms with features of their own in every row. The number of arms may differ between rows."""

    arms: Floats
    """(n, max_arms, dim)."""
    counts: Ints
    """Number of arms of each row, (n,). Entries of `arms` beyond it are ignored."""
    same_arms: bool = False
    """Whether all rows have the same arms in the same order, by name. Their features may differ."""

    def __post_init__(self) -> None:
        arms, counts = check_array("arms", self.arms, 3), check_int_array("counts", self.counts)
        set_validated(self, arms=arms, counts=counts)
        if counts.shape != (len(arms),):
            raise InvalidInput(f"counts must have one number for each of the {len(arms)} rows; got {counts.shape}")
        if len(arms) and not 1 <= counts.min() <= counts.max() <= arms.shape[1]:
            raise InvalidInput(f"each row needs 1 to {arms.shape[1]} arms; got counts {counts.min()} to {counts.max()}")
        if self.same_arms and (counts != arms.shape[1]).any():
            raise InvalidInput(f"same_arms needs {arms.shape[1]} arms in each row; got {counts.min()} in a row")

    @property
    def dim(self) -> int:
        return int(self.arms.shape[2])

    @property
    def max_arms(self) -> int:
        return int(self.arms.shape[1])

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, rows: RowIndex) -> "RowArms":
        return copy_with(self, arms=self.arms[rows], counts=self.counts[rows])

    def features(self) -> Floats:
        return self.arms


@dataclass(frozen=True, eq=False)
class CrossedArms:
    """The same arms in every row, with features that are combined with the context of the row.

    For a context x and arm features z, the combined features are z and every product x_i z_j; with cross=False they
    are z and x. Features of a single pair of row and arm (`own`) come last. A `Combination`, as feature maps have,
    selects other products.
    """

    contexts: Floats
    """Context of each row, (n, p)."""
    arms: Floats
    """Features of each arm, (K, q). Use the identity matrix for arms that have only a name."""
    own: Floats | None = None
    """Features of each pair of row and arm, (n, K, r)."""
    cross: bool | Combination = True
    same_arms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_validated(self, contexts=check_array("contexts", self.contexts, 2), arms=check_array("arms", self.arms, 2))
        if not len(self.arms):
            raise InvalidInput("arms must have at least one row, one for each arm; got none")
        if self.own is not None:
            set_validated(self, own=check_array("own", self.own, 3))
            if self.own.shape[:2] != (len(self.contexts), len(self.arms)):
                raise InvalidInput(
                    f"own must have shape ({len(self.contexts)}, {len(self.arms)}, r): rows, arms, features; "
                    f"got {self.own.shape}"
                )
        if not isinstance(self.cross, Combination):
            p, q, r = self.contexts.shape[1], self.arms.shape[1], 0 if self.own is None else self.own.shape[2]
            products = ((Part(True, 0, p), Part(False, 0, q)),) if self.cross else ()
            set_validated(self, cross=Combination(q, p, r, context_alone=not self.cross, products=products))

    @property
    def combination(self) -> Combination:
        """How context and arm features are combined."""
        assert isinstance(self.cross, Combination)
        return self.cross

    @property
    def dim(self) -> int:
        return self.combination.dim

    @property
    def max_arms(self) -> int:
        return len(self.arms)

    @property
    def counts(self) -> Ints:
        return np.full(len(self), self.max_arms, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.contexts)

    def __getitem__(self, rows: RowIndex) -> "CrossedArms":
        own = None if self.own is None else self.own[rows]
        return copy_with(self, contexts=self.contexts[rows], own=own)

    def features(self) -> Floats:
        return self.combination.combine(self.arms, self.contexts[:, np.newaxis], self.own)


@dataclass(frozen=True, eq=False)
class UnreadArms:
    """The arms of a block that was read without their features."""

    counts: Ints
    dim: int
    max_arms: int
    same_arms: bool = False

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: RowIndex) -> "UnreadArms":
        return copy_with(self, counts=self.counts[rows])

    def features(self) -> Floats:
        """Raise InvalidInput: the features were not read."""
        raise InvalidInput("this block was read without features; read it with blocks(features=True)")


def copy_with(record: Record, **fields: Any) -> Record:
    """Return a copy with some fields replaced, without validating them again."""
    clone = copy(record)
    set_validated(clone, **fields)
    return clone


def check_array(name: str, values: ArrayLike, axes: int) -> Floats:
    """Return the values as a float64 array with `axes` axes.

    Raises InvalidInput unless all are finite.
    """
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be an array of numbers: {error}") from None
    if array.ndim != axes:
        raise InvalidInput(f"{name} must have {axes} axes; got shape {array.shape}")
    bad = ~(np.abs(array) <= MAX_ABS)
    if bad.any():
        index = [int(i) for i in np.argwhere(bad)[0]]
        raise InvalidInput(
            f"{name} must be finite numbers; got {array[tuple(index)]} at index {index} ({int(bad.sum())} such values "
            "in all). Fill in or drop missing values first"
        )
    return array


def check_int_array(name: str, values: ArrayLike) -> Ints:
    """Return the values as an int64 array, (n,).

    Raises InvalidInput unless all are whole numbers.
    """
    array = np.asarray(values)
    numbers = check_array(name, array, 1) if array.dtype.kind not in "iu" else array
    if array.ndim != 1 or not (numbers == np.floor(numbers)).all():
        raise InvalidInput(f"{name} must be whole numbers on one axis; got {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(numbers, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RowArmNames:
    """The names of the arms that each row offers.

    >>> offered = RowArmNames(("a", "b", "c"), [[2, 0, -1], [1, 2, 0]])     # the first row offers c and a
    >>> offered.find("a").tolist()
    [1, 2]
    >>> offered.find("b").tolist()
    [-1, 0]
    """

    names: tuple[str, ...]
    """Names of all arms, over all rows of the log."""
    indices: Ints
    """The index in `names` of each arm of each row, (n, max_arms); -1 beyond the arms of the row."""

    def __post_init__(self) -> None:
        indices = np.asarray(self.indices)
        if indices.ndim != 2 or indices.dtype.kind not in "iu" or not (indices < len(self.names)).all():
            raise InvalidInput(
                "indices must be an array (rows, arms) of indices of names, -1 beyond the arms of a row; got shape "
                f"{indices.shape} of {indices.dtype}"
            )
        set_validated(self, names=tuple(map(str, self.names)), indices=indices.astype(np.int64, copy=False))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: RowIndex) -> "RowArmNames":
        return copy_with(self, indices=self.indices[rows])

    def find(self, name: str) -> Ints:
        """Return the index of an arm in each row, (n,): -1 in rows that do not offer it."""
        offered = self.indices == (self.names.index(name) if name in self.names else len(self.names))
        found: Ints = np.where(offered.any(axis=1), np.argmax(offered, axis=1), -1)
        return found
