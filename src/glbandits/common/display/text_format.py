"""Numbers and lists as text, for tables and sentences."""

import math
from collections.abc import Sequence

NO_VALUE = "-"
"""The content of a table cell without a number."""
UNKNOWN = "unknown"
"""The content of a table cell with an estimate that is not finite."""


def significant(value: float | None) -> str:
    """Return at least three significant digits, with an exponent only from 1e15 on.

    >>> [significant(number) for number in (0.000012345, 2.0, 1234.5, 1e40)]
    ['0.0000123', '2.00', '1234', '1e+40']
    """
    if value is None or not math.isfinite(value):
        return NO_VALUE
    exponent = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:.3g}" if exponent >= 15 else f"{value:.{max(0, 2 - exponent)}f}"


def format_value(value: float, *, sign: bool = False) -> str:
    """Return five decimals, or one decimal from 100 on.

    >>> format_value(0.0042), format_value(12345.678), format_value(0.25, sign=True), format_value(float("nan"))
    ('0.00420', '12345.7', '+0.25000', 'unknown')
    """
    if not math.isfinite(value):
        return UNKNOWN
    decimals = 5 if abs(value) < 100 else 1
    return f"{value:{'+' if sign else ''}.{decimals}f}"


def format_interval(interval: tuple[float, float] | None, *, sign: bool = False) -> str:
    """Return both ends of an interval.

    >>> format_interval((0.25, 0.5)), format_interval(None)
    ('0.25000 to 0.50000', 'unknown')
    """
    if interval is None or not math.isfinite(interval[0]):
        return UNKNOWN
    return " to ".join(format_value(end, sign=sign) for end in interval)


def with_half_width(mean: float, half_width: float | None, decimals: int, *, sign: bool = False) -> str:
    """Return a mean and the half-width of its interval, if it has one.

    >>> with_half_width(12.345, 0.678, 1), with_half_width(2.0, float("nan"), 1, sign=True)
    ('12.3 ± 0.7', '+2.0')
    """
    text = f"{mean:{'+' if sign else ''}.{decimals}f}"
    return f"{text} ± {half_width:.{decimals}f}" if half_width is not None and math.isfinite(half_width) else text


def join_words(words: Sequence[str]) -> str:
    """Return the words as a list in a sentence.

    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def format_seeds(seeds: Sequence[int]) -> str:
    """Return seeds as a range if they are consecutive, and as a list otherwise.

    >>> format_seeds([1, 2, 3]), format_seeds([4, 9])
    ('1 to 3', '4 and 9')
    """
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return join_words([str(seed) for seed in seeds])


def format_bytes(size: int) -> str:
    """Return a size in a readable unit.

    >>> format_bytes(720), format_bytes(48_000), format_bytes(3_200_000)
    ('720 B', '48 kB', '3.2 MB')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} B"
