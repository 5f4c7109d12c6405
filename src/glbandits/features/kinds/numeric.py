"""Kinds of columns that hold amounts: numbers, true or false, vectors and dates."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from glbandits.errors import MAX_ABS, check_float, check_int, lookup
from glbandits.features.kinds.column_kind import MISSING, MISSING_TEXTS, BadValue, ColumnKind, Missing, is_missing
from glbandits.records import Floats, set_validated

FILL_IN = "Fill it in, or use missing='indicator' or 'impute'"
AMOUNT = re.compile(r"[$€£¥]? ?([+-]?)[$€£¥]? ?(\d{1,3}(?:,\d{3})+|\d*)(\.\d*)?([eE][+-]?\d+)? ?([%$€£¥]?)")
TRUE, FALSE = frozenset({"true", "t", "yes", "y", "1", "on"}), frozenset({"false", "f", "no", "n", "0", "off"})
YEAR = 365.2425


def parse_number(text: str) -> float | None:
    """The number that a text writes, with thousands separators, a currency or a percent sign; None if it is none.

    >>> [parse_number(text) for text in ("12", "12%", "1,234.5", "$3", "1e3", "a12", "1,23")]
    [12.0, 0.12, 1234.5, 3.0, 1000.0, None, None]
    """
    found = AMOUNT.fullmatch(text.strip())
    if found is None or not any(char.isdigit() for char in text):
        return None
    sign, digits, decimals, exponent, unit = (part or "" for part in found.groups())
    amount = float(f"{sign}{digits.replace(',', '')}{decimals}{exponent}")
    return amount / 100.0 if unit == "%" else amount


@dataclass(frozen=True)
class Number(ColumnKind):
    """A number, centred and scaled.

    >>> numbers = Number(mean=40.0, scale=10.0, missing="indicator")
    >>> numbers.feature_names("age")
    ['age', 'age is missing']
    """

    kind: ClassVar[str] = "number"
    mean: float = 0.0
    scale: float = 1.0
    missing: Missing = "indicator"
    """A missing value counts as the mean; with "indicator", a second feature says that it is missing."""
    from_text: bool = False
    """Whether text such as "12%" or "1,234" is read as a number."""

    def __post_init__(self) -> None:
        scale = check_float("scale", self.scale, above=0)
        set_validated(self, mean=check_float("mean", self.mean), scale=scale, from_text=bool(self.from_text))
        set_validated(self, missing=lookup("way to treat missing values", self.missing, MISSING))

    @property
    def width(self) -> int:  # noqa: D102
        return 2 if self.missing == "indicator" else 1

    @property
    def takes_missing(self) -> bool:  # noqa: D102
        return self.missing == "indicator"

    @property
    def example(self) -> Any:  # noqa: D102
        return float(f"{self.mean:.3g}")

    def feature_names(self, column: str) -> list[str]:  # noqa: D102
        return [column, f"{column} is missing"][: self.width]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        mean, scale = self.mean, self.scale
        for row, value in enumerate(values):
            amount = value if type(value) is float or type(value) is int else self._read(row, value)
            if amount is None or amount != amount:
                if self.missing == "error":
                    raise BadValue(row, "must not be missing", None, FILL_IN)
                if self.missing == "indicator":
                    indices.append(start + row * stride + 1)
                    numbers.append(1.0)
            elif -MAX_ABS <= amount <= MAX_ABS:
                indices.append(start + row * stride)
                numbers.append((amount - mean) / scale)
            else:
                raise BadValue(row, f"must be a finite number of at most {MAX_ABS:g}", value)

    def encode_array(self, values: Floats) -> Floats:
        """The features of many numbers, NaN where they are missing, (n, width)."""
        gone = np.isnan(values)
        if self.missing == "error" and gone.any():
            raise BadValue(int(np.argmax(gone)), "must not be missing", None, FILL_IN)
        bad = ~(np.abs(values) <= MAX_ABS) & ~gone
        if bad.any():
            row = int(np.argmax(bad))
            raise BadValue(row, f"must be a finite number of at most {MAX_ABS:g}", float(values[row]))
        scaled = np.where(gone, 0.0, (values - self.mean) / self.scale)
        return np.stack([scaled, gone], axis=1)[:, : self.width]

    def _read(self, row: int, value: Any) -> float | None:
        """A number that is of another type than float or int."""
        if isinstance(value, str):
            text = value.strip()
            if text in MISSING_TEXTS:
                return None
            amount = parse_number(text) if self.from_text else _plain(text)
            if amount is None:
                raise BadValue(row, "must be a number", value, "Correct it, leave it empty, or make it a category")
            return amount
        if is_missing(value):
            return None
        if isinstance(value, Real | np.number | np.bool_) or hasattr(value, "__float__"):
            return float(value)
        raise BadValue(row, "must be a number", value)


def _plain(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class Boolean(ColumnKind):
    """True or false, also as 1 and 0 or as text such as "yes" and "no"."""

    kind: ClassVar[str] = "boolean"
    missing: Missing = "indicator"
    """A missing value counts as false; with "indicator", a second feature says that it is missing."""

    def __post_init__(self) -> None:
        set_validated(self, missing=lookup("way to treat missing values", self.missing, MISSING))

    @property
    def width(self) -> int:  # noqa: D102
        return 2 if self.missing == "indicator" else 1

    @property
    def takes_missing(self) -> bool:  # noqa: D102
        return self.missing == "indicator"

    @property
    def example(self) -> Any:  # noqa: D102
        return True

    def feature_names(self, column: str) -> list[str]:  # noqa: D102
        return [column, f"{column} is missing"][: self.width]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        for row, value in enumerate(values):
            if value is True or value is False:
                truth = 1.0 if value else 0.0
            elif is_missing(value) or (isinstance(value, str) and value.strip() in MISSING_TEXTS):
                if self.missing == "error":
                    raise BadValue(row, "must not be missing", None, FILL_IN)
                if self.missing == "indicator":
                    indices.append(start + row * stride + 1)
                    numbers.append(1.0)
                continue
            else:
                truth = _truth(row, value)
            indices.append(start + row * stride)
            numbers.append(truth)


def _truth(row: int, value: object) -> float:
    text = str(value).strip().lower().removesuffix(".0")
    if text not in TRUE | FALSE:
        raise BadValue(row, "must be true or false", value)
    return float(text in TRUE)


@dataclass(frozen=True)
class Vector(ColumnKind):
    """A list of so many numbers, which are the features as they are."""

    kind: ClassVar[str] = "vector"
    size: int

    def __post_init__(self) -> None:
        set_validated(self, size=check_int("size", self.size, at_least=0, at_most=2**24))

    @property
    def width(self) -> int:  # noqa: D102
        return self.size

    @property
    def takes_missing(self) -> bool:  # noqa: D102
        return False

    @property
    def example(self) -> Any:  # noqa: D102
        return [0.0] * self.size

    def feature_names(self, column: str) -> list[str]:  # noqa: D102
        return [f"{column}[{index}]" for index in range(self.size)]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        for row, value in enumerate(values):
            try:
                vector = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                vector = np.empty(0)
            if vector.shape != (self.size,) or not (np.abs(vector) <= MAX_ABS).all():
                raise BadValue(row, f"must be a list of {self.size} finite numbers", value)
            indices.extend(range(start + row * stride, start + row * stride + self.size))
            numbers.extend(vector.tolist())


@dataclass(frozen=True)
class Date(ColumnKind):
    """A date or a time: years since the centre, and where it is in the year, the week and the day, as cycles.

    Text is read in ISO 8601, such as 2025-01-31 or 2025-01-31T18:00. Times are taken as they are written, without
    their time zone.

    >>> Date(centre=2025.5, hours=False).feature_names("day")
    ['day: years', 'day: season sin', 'day: season cos', 'day: weekday sin', 'day: weekday cos', 'day is missing']
    """

    kind: ClassVar[str] = "date"
    centre: float = 2025.0
    """The year that counts as 0."""
    hours: bool = True
    """Whether the time of day is a feature."""
    missing: Missing = "indicator"

    def __post_init__(self) -> None:
        set_validated(self, centre=check_float("centre", self.centre), hours=bool(self.hours))
        set_validated(self, missing=lookup("way to treat missing values", self.missing, MISSING))

    @property
    def width(self) -> int:  # noqa: D102
        return 5 + 2 * self.hours + (self.missing == "indicator")

    @property
    def takes_missing(self) -> bool:  # noqa: D102
        return self.missing == "indicator"

    @property
    def example(self) -> Any:  # noqa: D102
        return "2025-01-31T18:00" if self.hours else "2025-01-31"

    def feature_names(self, column: str) -> list[str]:  # noqa: D102
        cycles = ["season", "weekday", "hour"][: 2 + self.hours]
        names = [f"{column}: years"] + [f"{column}: {cycle} {wave}" for cycle in cycles for wave in ("sin", "cos")]
        return [*names, f"{column} is missing"][: self.width]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:  # noqa: D102
        for row, value in enumerate(values):
            at, moment = start + row * stride, read_date(value)
            if isinstance(moment, datetime):
                features = self._features(moment)
                indices.extend(range(at, at + len(features)))
                numbers.extend(features)
            elif moment is None:
                raise BadValue(row, "must be a date such as 2025-01-31 or 2025-01-31T18:00", value)
            elif self.missing == "error":
                raise BadValue(row, "must not be missing", None, FILL_IN)
            elif self.missing == "indicator":
                indices.append(at + self.width - 1)
                numbers.append(1.0)

    def _features(self, moment: datetime) -> list[float]:
        day = (moment.hour + moment.minute / 60.0) / 24.0
        season, week = (moment.timetuple().tm_yday - 1 + day) / YEAR, (moment.weekday() + day) / 7.0
        cycles = [season, week, day][: 2 + self.hours]
        waves = [wave(2.0 * math.pi * cycle) for cycle in cycles for wave in (math.sin, math.cos)]
        return [years_of(moment) - self.centre, *waves]


def years_of(moment: datetime) -> float:
    """The year with its fraction."""
    return moment.year + (moment.timetuple().tm_yday - 1) / YEAR


def read_date(value: object) -> datetime | Literal["missing"] | None:
    """The date that a value tells; "missing" if there is none, and None if it is no date."""
    if is_missing(value):
        return "missing"
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.datetime64):
        return read_date(value.astype("datetime64[us]").item())
    if not isinstance(value, str):
        return None
    if value.strip() in MISSING_TEXTS:
        return "missing"
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None
