"""Durations in settings and requests: 5s, 2m, 1h, 1d, ISO 8601, or a number of seconds."""

import math
import re
from contextlib import suppress
from datetime import timedelta

import msgspec

from glbandits.common.errors import InvalidInput, value_text

LONGEST_WINDOW = 60 * 86400
"""The longest reward window, in seconds."""
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""Seconds of the units of a duration."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?) ?(s|m|min|h|d|)", re.ASCII)


def parse_duration(name: str, value: float | str, *, at_most: float) -> float:
    """Return the seconds of a duration.

    Raises InvalidInput if it is not a duration, is negative or is longer than `at_most` seconds. Months and years are
    refused. `name` is the name of the setting in the message.

    >>> [parse_duration("rewardWait", value, at_most=1e6) for value in ("5s", "2m", "1h", "1d", "PT10M", "0.5", 7)]
    [5.0, 120.0, 3600.0, 86400.0, 600.0, 0.5, 7.0]
    """
    seconds = math.nan
    if isinstance(value, str):
        if number := _NUMBER.fullmatch(value):
            seconds = float(number[1]) * UNITS[number[2]]
        elif value.startswith("P"):
            with suppress(msgspec.ValidationError):
                seconds = msgspec.convert(value, timedelta).total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value) if abs(value) < 2**53 else math.inf
    if not 0 <= seconds <= at_most:
        raise InvalidInput(
            f"{name} must be a duration of at most {at_most / 86400:g}d: 5s, 2m, 1h, 1d, ISO 8601 such as PT5M, or "
            f"a number of seconds; got {value_text(value, 40)}",
            field=name,
        )
    return seconds


def duration_text(seconds: float) -> str:
    """Return a duration as ISO 8601 in days, hours, minutes and seconds, to the microsecond.

    >>> duration_text(600), duration_text(90061.5), duration_text(0)
    ('PT10M', 'P1DT1H1M1.5S', 'PT0S')
    """
    span = timedelta(seconds=seconds)
    minutes, rest = divmod(span.seconds, 60)
    last = f"{rest}.{span.microseconds:06d}".rstrip("0").rstrip(".")
    clock = ((minutes // 60, "H"), (minutes % 60, "M"), (last, "S"))
    time = "".join(f"{count}{unit}" for count, unit in clock if count not in (0, "0"))
    days = f"{span.days}D" if span.days else ""
    return f"P{days}T{time}" if time else f"P{days or 'T0S'}"
