"""Typical values of columns, for examples of requests."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from glbandits.features.kinds.categorical import Category, as_category
from glbandits.features.kinds.column_kind import BadValue, ColumnKind
from glbandits.features.kinds.dates import Date, parse_date, years_of
from glbandits.features.kinds.numeric import Boolean, Number
from glbandits.features.table_columns import Values

SAMPLE = 1000
"""The largest number of values that are looked at, evenly spaced over the column."""


def typical_values(columns: Mapping[str, Values], kinds: Mapping[str, ColumnKind]) -> dict[str, Any]:
    """A JSON value that is typical of each column, by name. Columns of some kinds have none."""
    values = {name: typical_value(columns[name], kind) for name, kind in kinds.items()}
    return {name: value for name, value in values.items() if value is not None}


def typical_value(values: Values, kind: ColumnKind) -> Any:
    """A JSON value that is typical of the column; None if there is none.

    It is the most common category or boolean, the median of numbers, or the median of dates. Columns of other kinds
    have none, because their values may identify a person.

    >>> typical_value(["fr", "de", "fr"], Category(("de", "fr"))), typical_value([3, 900, 4], Number())
    ('fr', 4)
    """
    sample = list(values[:: -(-len(values) // SAMPLE) or 1])
    if isinstance(kind, Category):
        counts = Counter(text for text in map(as_category, sample) if text in kind.values)
        return counts.most_common(1)[0][0] if counts else None
    if isinstance(kind, Date):
        moments = [moment for moment in map(parse_date, sample) if moment is not None and moment != "missing"]
        moments.sort(key=years_of)
        return kind.text_of(moments[len(moments) // 2]) if moments else None
    if not isinstance(kind, Number | Boolean):
        return None
    try:
        middle = _median(_numbers(sample, kind))
    except BadValue:  # the kind was declared, and does not fit the values
        return None
    return bool(middle) if isinstance(kind, Boolean) and middle is not None else middle


def _numbers(sample: list[Any], kind: Number | Boolean) -> list[float]:
    """The present values as numbers. Texts are parsed as the kind parses them."""
    if isinstance(kind, Number):
        raw: ColumnKind = Number(
            missing="impute", from_text=kind.from_text, decimal_comma=kind.decimal_comma, percent=kind.percent
        )
    else:
        raw = Boolean(missing="impute")
    numbers: list[float] = []
    raw.encode(sample, 0, 0, [], numbers)
    return sorted(numbers)


def _median(ordered: list[float]) -> int | float | None:
    """The middle value with 6 significant digits, as an int if it is whole."""
    if not ordered:
        return None
    middle = float(f"{ordered[len(ordered) // 2]:.6g}")
    return int(middle) if middle.is_integer() and abs(middle) < 1e15 else middle
