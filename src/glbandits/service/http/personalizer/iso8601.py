"""Durations (ISO 8601) of Personalizer's API."""

from datetime import timedelta

import msgspec

from glbandits.common.errors import InvalidInput


def parse_duration(name: str, text: str) -> float:
    """Return the seconds of a duration in days, hours, minutes and seconds.

    Months and years are refused.

    >>> parse_duration("rewardWaitTime", "PT10M"), parse_duration("rewardWaitTime", "P1DT0.5S")
    (600.0, 86400.5)
    """
    try:
        return msgspec.convert(text, timedelta).total_seconds()
    except msgspec.ValidationError:
        raise InvalidInput(
            f"{name} must be an ISO 8601 duration of days, hours, minutes and seconds, like PT10M; got {text[:40]!r}"
        ) from None


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
