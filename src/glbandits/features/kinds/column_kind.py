"""ColumnKind: how one column of a table becomes features."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

from glbandits.errors import InvalidInput

Missing: TypeAlias = Literal["indicator", "impute", "error"]
MISSING: dict[str, Missing] = {"indicator": "indicator", "impute": "impute", "error": "error"}
"""What to do with missing values: a feature that is 1 for them, the mean of the others, or an error."""
Values: TypeAlias = Any
"""The values of a column: a list of anything, or an array of numbers with NaN where they are missing."""
MISSING_TEXTS = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "none", "-", "?"})
"""What people write in a column of numbers or dates where there is none."""


class BadValue(Exception):
    """A value that a column cannot hold. The feature map adds the name of the column and raises InvalidInput."""

    def __init__(self, row: int, need: str, got: object, advice: str = "") -> None:
        self.row, self.need, self.got, self.advice = row, need, got, advice

    def named(self, column: str, first_row: int) -> InvalidInput:
        """The error for the user. Rows are counted from 0."""
        value = "none" if is_missing(self.got) else repr(self.got)[:60]
        advice = f". {self.advice}" if self.advice else ""
        return InvalidInput(f"column {column!r}, row {first_row + self.row}: it {self.need}; got {value}{advice}")


@dataclass(frozen=True)
class ColumnKind:
    """How a column becomes features. The fields of a kind are all that a model file stores of it."""

    kind: ClassVar[str]

    @property
    def width(self) -> int:
        """The number of features."""
        raise NotImplementedError

    @property
    def takes_missing(self) -> bool:
        """Whether rows may lack the column: missing values were foreseen when the map was made."""
        return True

    @property
    def example(self) -> Any:
        """A value that the column may hold, for JSON."""
        raise NotImplementedError

    def feature_names(self, column: str) -> list[str]:
        """The names of the features."""
        raise NotImplementedError

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        """Append the non-zero features of each value.

        Args:
            values: one for each row.
            start: the index of the first feature of row 0.
            stride: the distance between the features of two rows.
            indices: the indices are appended here. Those that occur twice add up.
            numbers: the features are appended here.

        Raises:
            BadValue: if a value cannot be used.
        """
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """The fields, as a model file stores them."""
        return {"kind": self.kind} | {field.name: getattr(self, field.name) for field in fields(self) if field.init}


def is_missing(value: object) -> bool:
    """Whether a value stands for no value: None, NaN, and the NaT and NA of pandas.

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
