"""The kind of columns with dates and times."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from glbandits.common.arrays import set_validated
from glbandits.common.errors import check_float, lookup
from glbandits.features.kinds.column_kind import MISSING_TEXTS, BadValue, Missing, MissingKind, is_missing

UtcOffset: TypeAlias = Literal["optional", "required", "refused"]
UTC_OFFSETS: dict[str, UtcOffset] = {"optional": "optional", "required": "required", "refused": "refused"}
"""Rules for the UTC offsets of the times of a column."""
DAYS_PER_YEAR = 365.2425
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
DOTTED_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?: (\d{2}:\d{2}.*))?")
"""Day, month and year with points, such as 31.01.2025 or 31.01.2025 18:00."""
MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
UNREAD_DATE = re.compile(
    rf"(\d{{1,2}}([/.-])\d{{1,2}}\2\d{{2}}|\d{{1,2}}([/-])\d{{1,2}}\3\d{{4}}|\d{{4}}/\d{{1,2}}/\d{{1,2}}"
    rf"|([a-z]+, )?\d{{1,2}}[ -]{MONTH}[ -]\d{{2,4}}|{MONTH} \d{{1,2}}, \d{{4}})([T ,]+\d{{1,2}}:\d{{2}}.*)?"
    r"|\d{1,2}:\d{2}(:\d{2})?( ?[ap]m)?",
    re.IGNORECASE,
)
"""A date or a time in a format that `parse_date` does not read: 01/31/2025, 31.01.25, 31 Jan 2025, 6:00 PM."""
AS_OTHERS = "as the others of the column"


@dataclass(frozen=True)
class Date(MissingKind):
    """A date or a time.

    The features are the years since `centre`, and a sine and a cosine for each of the cycles of year, week and day.
    Text must be in ISO 8601 format, such as 2025-01-31 or 2025-01-31T18:00, or be written as 31.01.2025 or
    31.01.2025 18:00. A time with a UTC offset is converted to UTC, so that the same instant has the same features in
    any time zone. A time without an offset is used as it is.

    >>> Date(centre=2025.5, hours=False).feature_names("day")
    ['day: years', 'day: season sin', 'day: season cos', 'day: weekday sin', 'day: weekday cos', 'day is missing']
    """

    kind: ClassVar[str] = "date"
    centre: float = 2025.0
    """The year, with its fraction, at which the first feature is 0."""
    hours: bool = True
    """Whether the time of day gives two features."""
    missing: Missing = "indicator"
    """All features of a missing value are 0. With "indicator", a last feature is 1 for missing values."""
    utc_offset: UtcOffset = "optional"
    """Whether values must have a UTC offset ("required") or must have none ("refused"). `FeatureMap.learn` sets one of
    these, because the hours of the two kinds of times cannot be compared."""

    def __post_init__(self) -> None:
        set_validated(self, utc_offset=lookup("rule for UTC offsets", self.utc_offset, UTC_OFFSETS))
        set_validated(self, centre=check_float("centre", self.centre), hours=bool(self.hours))
        self._check_missing()

    @property
    def width(self) -> int:
        return 5 + 2 * self.hours + (self.missing == "indicator")

    @property
    def examples(self) -> tuple[Any, Any]:
        year = min(max(int(self.centre), 1), 9999)
        days = min(int((self.centre - year) * DAYS_PER_YEAR), 364) if self.centre > year else 0
        zone = UTC if self.utc_offset == "required" else None
        has_time, first = self.hours or zone is not None, datetime(year, 1, 1, 12, tzinfo=zone)
        one, two = first + timedelta(days=days), first + timedelta(days=(days + 1) % 365)
        texts = [day.isoformat(timespec="minutes") if has_time else day.date().isoformat() for day in (one, two)]
        return texts[0], texts[1]

    def feature_names(self, column: str) -> list[str]:
        cycles = ["season", "weekday", "hour"][: 2 + self.hours]
        names = [f"{column}: years"] + [f"{column}: {cycle} {wave}" for cycle in cycles for wave in ("sin", "cos")]
        return [*names, f"{column} is missing"][: self.width]

    def encode(self, values: Sequence[Any], start: int, stride: int, indices: list[int], numbers: list[float]) -> None:
        for row, value in enumerate(values):
            at, moment = start + row * stride, parse_date(value)
            if isinstance(moment, datetime):
                if self.utc_offset != "optional":
                    self._check_offset(row, value, moment)
                features = self._features(moment)
                indices.extend(range(at, at + len(features)))
                numbers.extend(features)
            elif moment is None:
                raise BadValue(row, "must be a date such as 2025-01-31 or 2025-01-31T18:00", value)
            else:
                self._encode_missing(row, at, indices, numbers)

    def _check_offset(self, row: int, value: object, moment: datetime) -> None:
        if moment.tzinfo is None and self.utc_offset == "required":
            raise BadValue(row, f"must have a UTC offset, {AS_OTHERS}", value, "Add it, as in 2025-01-31T18:00+01:00")
        if moment.tzinfo is not None and self.utc_offset == "refused":
            advice = "Write the time without it, in the time zone of the training data"
            raise BadValue(row, f"must have no UTC offset, {AS_OTHERS}", value, advice)

    def _features(self, moment: datetime) -> list[float]:
        day = (moment.hour + moment.minute / 60.0) / 24.0
        season, week = (moment.timetuple().tm_yday - 1 + day) / DAYS_PER_YEAR, (moment.weekday() + day) / 7.0
        cycles = [season, week, day][: 2 + self.hours]
        waves = [wave(2.0 * math.pi * cycle) for cycle in cycles for wave in (math.sin, math.cos)]
        return [years_of(moment) - self.centre, *waves]


def years_of(moment: datetime) -> float:
    """The year with its fraction, such as 2025.5 for July 2025."""
    return moment.year + (moment.timetuple().tm_yday - 1) / DAYS_PER_YEAR


def parse_date(value: object) -> datetime | Literal["missing"] | None:
    """Convert a value to a datetime, which is in UTC if the value has a UTC offset.

    Returns "missing" for a missing value, and None if the value is no date.
    """
    if is_missing(value):
        return "missing"
    if isinstance(value, datetime):
        return _in_utc(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.datetime64):
        return parse_date(value.astype("datetime64[us]").item())
    if not isinstance(value, str):
        return None
    if value.strip() in MISSING_TEXTS:
        return "missing"
    text = value.strip()
    dotted = DOTTED_DATE.fullmatch(text)
    if dotted is not None:
        day, month, year, time = dotted.groups()
        text = f"{year}-{int(month):02}-{int(day):02}" + ("" if time is None else f"T{time.replace(' ', '')}")
    try:
        return _in_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def _in_utc(moment: datetime) -> datetime:
    """The same instant in UTC, if the time has a UTC offset."""
    try:
        return moment if moment.utcoffset() is None else moment.astimezone(UTC)
    except OverflowError:  # within a day of the first or the last year
        return moment
