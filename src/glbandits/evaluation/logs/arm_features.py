"""What the arms of a log look like: the same in every row, different in every row, or a context crossed with arms.

All kinds answer the same questions: how many rows there are, how many arms each row has, and the features of the arms
of some rows. Features are made only when they are asked for, a block of rows at a time. `SparseArms`, in a file of its
own, is one more kind.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glbandits.errors import MAX_ABS, InvalidInput
from glbandits.features.feature_map.combination import Combination, Part
from glbandits.records import Floats, Ints, set_validated

Record = TypeVar("Record")
Rows: TypeAlias = slice | Ints | NDArray[np.bool_]


@runtime_checkable
class ArmFeatures(Protocol):
    """The arms of consecutive rows."""

    @property
    def dim(self) -> int:
        """Features of an arm."""

    @property
    def most(self) -> int:
        """Arms of the row that has most."""

    @property
    def counts(self) -> Ints:
        """Arms of each row, (n,)."""

    @property
    def same_arms(self) -> bool:
        """Whether all rows have the same arms in the same order. Their features may differ."""

    def __len__(self) -> int:
        """How many rows there are."""

    def __getitem__(self, rows: Rows) -> Self:
        """The arms of these rows."""

    def features(self) -> Floats:
        """Of all arms of all rows, (n, most, dim). Where a row has fewer arms, the rest of its rows are 0."""


@dataclass(frozen=True, eq=False)
class FixedArms:
    """The same arms in every row."""

    arms: Floats
    """(K, dim)."""
    rows: int
    """How many rows there are."""
    same_arms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_validated(self, arms=checked("arms", self.arms, 2))
        if not len(self.arms):
            raise InvalidInput("arms must have at least one row, an arm each; got none")

    @property
    def dim(self) -> int:  # noqa: D102
        return int(self.arms.shape[1])

    @property
    def most(self) -> int:  # noqa: D102
        return len(self.arms)

    @property
    def counts(self) -> Ints:  # noqa: D102
        return np.full(self.rows, self.most, dtype=np.int64)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: Rows) -> "FixedArms":
        return part_of(self, rows=len(np.empty(self.rows, dtype=np.int8)[rows]))

    def features(self) -> Floats:  # noqa: D102
        return np.ascontiguousarray(np.broadcast_to(self.arms, (self.rows, *self.arms.shape)))


@dataclass(frozen=True, eq=False)
class RowArms:
    """Arms of its own in every row, and maybe more in one row than in another."""

    arms: Floats
    """(n, most, dim)."""
    counts: Ints
    """How many of them each row has, (n,)."""
    same_arms: ClassVar[bool] = False

    def __post_init__(self) -> None:
        arms, given = checked("arms", self.arms, 3), checked("counts", self.counts, 1)
        if (given != np.floor(given)).any():
            raise InvalidInput(f"counts must be whole numbers; got {given[np.argmax(given != np.floor(given))]}")
        counts = given.astype(np.int64)
        set_validated(self, arms=arms, counts=counts)
        if counts.shape != (len(arms),):
            raise InvalidInput(f"counts must have one number for each of the {len(arms)} rows; got {counts.shape}")
        if len(arms) and not 1 <= counts.min() <= counts.max() <= arms.shape[1]:
            raise InvalidInput(f"each row needs 1 to {arms.shape[1]} arms; got counts {counts.min()} to {counts.max()}")

    @property
    def dim(self) -> int:  # noqa: D102
        return int(self.arms.shape[2])

    @property
    def most(self) -> int:  # noqa: D102
        return int(self.arms.shape[1])

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, rows: Rows) -> "RowArms":
        return part_of(self, arms=self.arms[rows], counts=self.counts[rows])

    def features(self) -> Floats:  # noqa: D102
        return self.arms


@dataclass(frozen=True, eq=False)
class CrossedArms:
    """A context in every row and the same arms, each with features of its own: an arm's features are the products.

    With the context x and the arm's features z, the features are z, and every x_i z_j; with cross=False they are z and
    x. What belongs to one row and one arm (`own`) comes last. A feature map says in its `combination` which products
    there are.
    """

    contexts: Floats
    """(n, p)."""
    arms: Floats
    """(K, q). The identity matrix if nothing is known of the arms but their names."""
    own: Floats | None = None
    """(n, K, r)."""
    cross: bool | Combination = True
    same_arms: ClassVar[bool] = True

    def __post_init__(self) -> None:
        set_validated(self, contexts=checked("contexts", self.contexts, 2), arms=checked("arms", self.arms, 2))
        if not len(self.arms):
            raise InvalidInput("arms must have at least one row, an arm each; got none")
        if self.own is not None:
            set_validated(self, own=checked("own", self.own, 3))
            if self.own.shape[:2] != (len(self.contexts), len(self.arms)):
                raise InvalidInput(
                    f"own must begin with {len(self.contexts)} rows and {len(self.arms)} arms; got {self.own.shape}"
                )
        if not isinstance(self.cross, Combination):
            p, q, r = self.contexts.shape[1], self.arms.shape[1], 0 if self.own is None else self.own.shape[2]
            products = ((Part(True, 0, p), Part(False, 0, q)),) if self.cross else ()
            set_validated(self, cross=Combination(q, p, r, context_alone=not self.cross, products=products))

    @property
    def combination(self) -> Combination:
        """How the features of an arm are made."""
        assert isinstance(self.cross, Combination)
        return self.cross

    @property
    def dim(self) -> int:  # noqa: D102
        return self.combination.dim

    @property
    def most(self) -> int:  # noqa: D102
        return len(self.arms)

    @property
    def counts(self) -> Ints:  # noqa: D102
        return np.full(len(self), self.most, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.contexts)

    def __getitem__(self, rows: Rows) -> "CrossedArms":
        own = None if self.own is None else self.own[rows]
        return part_of(self, contexts=self.contexts[rows], own=own)

    def features(self) -> Floats:  # noqa: D102
        return self.combination.combine(self.arms, self.contexts[:, np.newaxis], self.own)


def part_of(record: Record, **fields: Any) -> Record:
    """A record of some of the rows of another, which were checked when that one was made."""
    part = copy(record)
    set_validated(part, **fields)
    return part


def checked(name: str, values: ArrayLike, axes: int) -> Floats:
    """The array as float64 on so many axes; an error where a number is missing or absurd."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must hold numbers; NumPy could not make an array of them: {error}") from None
    if array.ndim != axes:
        raise InvalidInput(f"{name} must have {axes} axes; got shape {array.shape}")
    bad = ~(np.abs(array) <= MAX_ABS)
    if bad.any():
        where = [int(i) for i in np.argwhere(bad)[0]]
        raise InvalidInput(
            f"{name} must hold finite numbers; got {array[tuple(where)]} at {where}, and {int(bad.sum())} such in all. "
            "Fill in or drop missing values first"
        )
    return array


def whole_numbers(name: str, values: ArrayLike) -> Ints:
    """The values as int64 on one axis; an error if they are not whole."""
    given = np.asarray(values)
    numbers = checked(name, given, 1) if given.dtype.kind not in "iu" else given
    if given.ndim != 1 or not (numbers == np.floor(numbers)).all():
        raise InvalidInput(f"{name} must be whole numbers on one axis; got {given.dtype} of shape {given.shape}")
    return np.ascontiguousarray(numbers, dtype=np.int64)
