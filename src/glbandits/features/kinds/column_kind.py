"""ColumnKind: the rule by which one column of a table becomes features."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

from glbandits.common.arrays import set_validated
from glbandits.common.errors import InvalidInput, lookup, value_text

Missing: TypeAlias = Literal["indicator", "impute", "error"]
MISSING: dict[str, Missing] = {"indicator": "indicator", "impute": "impute", "error": "error"}
"""Ways to treat missing values: add a feature that is 1 for them, use a default value, or raise an error."""
LARGEST_WIDTH = 2**24
"""The largest number of features of a column."""
MISSING_TEXTS = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "none", "-", "?"})
"""Texts that mean a missing value in a column of numbers, booleans or dates."""


class BadValue(Exception):
    """A value that a column cannot hold.

    The caller adds the name of the column by `as_invalid_input`.

    Args:
        row: the index of the value.
        requirement: the rest of the sentence "the value ...", such as "must be a number".
        value: the value received. None means that it is missing.
        advice: a sentence that tells the user what to do.
    """

    def __init__(self, row: int, requirement: str, value: object, advice: str = "") -> None:
        self.row, self.requirement, self.value, self.advice = row, requirement, value, advice

    def as_invalid_input(self, column: str, row_numbers: int | Sequence[int]) -> InvalidInput:
        """Return the error for the user. `row_numbers` is the number of the row with index 0, or of each row."""
        problem = f"{self.requirement}; got {value_text(self.value)}"
        if is_missing(self.value):
            problem = "is missing" if self.requirement == NOT_MISSING else f"{self.requirement}, but it is missing"
        advice = f". {self.advice}" if self.advice else ""
        number = row_numbers + self.row if isinstance(row_numbers, int) else row_numbers[self.row]
        field = "missing" if self.requirement == NOT_MISSING else None
        return InvalidInput(f"column {column!r}, row {number}: the value {problem}{advice}", field=field)


NOT_MISSING = "must not be missing"
"""The requirement of a `BadValue` if missing values are errors."""
FILL_IN = "Fill it in, or use missing='indicator' or missing='impute'"


@dataclass(frozen=True)
class ColumnKind(ABC):
    """How a column becomes features. A model file stores the fields of the kind, and nothing else."""

    kind: ClassVar[str]
    """The name of the kind in model files and in `FeatureMap.learn(kinds=...)`."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of features."""

    @property
    def takes_missing(self) -> bool:
        """Whether a row may lack the column without an error."""
        return True

    @property
    @abstractmethod
    def examples(self) -> tuple[Any, Any]:
        """Two JSON values that the column may hold, different if possible, for examples of requests."""

    @abstractmethod
    def feature_names(self, column: str) -> list[str]:
        """The names of the features of a column with this name."""

    @abstractmethod
    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        """Append the non-zero features of each value to two lists.

        Feature j of row i has the index `start + i * stride + j`. Numbers with the same index are to be summed.

        Args:
            values: one for each row.
            start: the index of the first feature of row 0.
            stride: the distance between the indices of two rows.
            indices: the list to which the indices are appended.
            numbers: the list to which the features are appended.

        Raises:
            BadValue: if a value cannot be used.
        """

    def document(self) -> dict[str, Any]:
        """The fields, as a model file stores them."""
        return {"kind": self.kind} | {field.name: getattr(self, field.name) for field in fields(self) if field.init}


class MissingKind(ColumnKind):
    """A kind with the setting `missing`. With "indicator", its last feature is 1 for missing values.

    A kind with more than one other feature has its own `width` and `feature_names`.
    """

    missing: Missing

    @property
    def width(self) -> int:
        return 1 + self.takes_missing

    @property
    def takes_missing(self) -> bool:
        return self.missing == "indicator"

    def feature_names(self, column: str) -> list[str]:
        """The name of the column, and of the feature of missing values if there is one."""
        return [column, f"{column} is missing"][: self.width]

    def _check_missing(self) -> None:
        set_validated(self, missing=checked_missing(self.missing))

    def _encode_missing(self, row: int, at: int, indices: list[int], numbers: list[float]) -> None:
        """Append the features of a missing value, whose first feature has the index `at`."""
        if self.missing == "error":
            raise BadValue(row, NOT_MISSING, None, FILL_IN)
        if self.missing == "indicator":
            indices.append(at + self.width - 1)
            numbers.append(1.0)


def checked_missing(missing: object) -> Missing:
    """Return a way to treat missing values. Raises UnknownName if there is no such way."""
    return lookup("way to treat missing values", missing, MISSING)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or the NaT or NA of pandas.

    >>> [is_missing(value) for value in (None, float("nan"), 0, "")]
    [True, True, False, False]
    """
    if value is None:
        return True
    if isinstance(value, str | list | tuple | dict):
        return False
    if type(value).__name__ in ("NAType", "NaTType"):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return False
