"""Infer the kinds of columns from their values.

Ambiguous values, such as numbers written as text, raise an error that asks the user for the kind.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from glbandits.common.errors import InvalidInput, value_text
from glbandits.features.kinds.categorical import Category, Tags, as_category, as_tags
from glbandits.features.kinds.column_kind import MISSING_TEXTS, BadValue, ColumnKind, Missing, is_missing
from glbandits.features.kinds.dates import DOTTED_DATE, OTHER_DATE, TIME_OF_DAY, Date, UtcOffset, parse_date, years_of
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.kind_names import lookup_kind
from glbandits.features.kinds.numeric import (
    BOOLEAN_WORDS,
    FALSE,
    TRUE,
    Boolean,
    Number,
    Vector,
    has_percent_sign,
    parse_decimal_comma,
    parse_number,
)
from glbandits.features.natural_order import natural_order
from glbandits.features.table_columns import Values

MAX_ONE_HOT = 50
"""The largest number of categories with a feature each. A column with more categories is hashed."""
MOSTLY_DISTINCT = 0.5
"""The share of distinct texts above which a text column is ambiguous: free text, or a category."""
NARROWEST, WIDEST = 128, 1024
"""Bounds of the number of features of a hashed category, which is about twice its number of categories."""
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
LEADING_ZERO = re.compile(r"0\d+$")
"""Digits that may be a code, such as the postal code 01067."""
SKIP = "skip"

Kinds: TypeAlias = Mapping[str, str | ColumnKind]
"""Kinds of columns by the name of the column: the name of a kind, "skip", or a ColumnKind."""


def learn_kinds(
    columns: Mapping[str, Values], kinds: Kinds, missing: Missing, row_steps: Mapping[str, int] | None = None
) -> dict[str, ColumnKind]:
    """The kind of each column that is not skipped.

    Raises one InvalidInput with the problems of all columns. It names the row of a value if `row_steps` has the column:
    value i is in row i * step of the table.
    """
    learned: dict[str, ColumnKind] = {}
    problems: list[InvalidInput] = []
    for name, values in columns.items():
        declared = kinds.get(name)
        if declared == SKIP:
            continue
        try:
            learned[name] = (
                declared
                if isinstance(declared, ColumnKind)
                else learn_kind(name, values, declared, missing, (row_steps or {}).get(name))
            )
        except InvalidInput as problem:
            problems.append(problem)
    if problems:
        raise InvalidInput("\n".join(map(str, problems)), field=problems[0].field or "kinds")
    return learned


def learn_kind(
    name: str, values: Values, declared: str | None, missing: Missing, row_step: int | None = None
) -> ColumnKind:
    """Learn the settings of the kind of a column: of the declared or the inferred kind."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        absent: Any = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=np.bool_)
        present = values[~absent]
        if declared not in (None, "number", "raw"):
            present = present.tolist()
    else:
        present = [value for value in values if not is_missing(value)]
    if not len(present):
        raise InvalidInput(f"column {name!r} has no values. Leave it out")
    absent_count = len(values) - len(present)
    if missing == "error" and absent_count:
        raise _missing_values(name, absent_count)
    kind = infer_kind(name, present) if declared is None else declared
    try:
        learned = lookup_kind(kind, LEARNERS, SKIP)(present, missing)
    except UnclearComma as unclear:
        raise InvalidInput(_unclear_comma(name, unclear.texts)) from None
    except BadValue as bad:
        index = [index for index, value in enumerate(values) if not is_missing(value)][bad.row]
        row = "" if row_step is None else f", row {index * row_step}"
        raise InvalidInput(
            f"column {name!r}{row}: each value {bad.requirement}; got {_shown(bad.value)}. Correct it, or use "
            f"{_kind(name, 'category')}"
        ) from None
    if isinstance(learned, Number | Boolean | Category | Date):
        absent_count += _missing_texts(present, learned)
        if missing == "error" and absent_count:
            raise _missing_values(name, absent_count)
        if missing == "indicator" and not absent_count:
            return replace(learned, missing="impute")
    return learned


def _missing_values(name: str, count: int) -> InvalidInput:
    return InvalidInput(
        f"column {name!r} has {count} missing values. Fill them in, or use missing='indicator' or missing='impute'",
        field="missing",
    )


def _missing_texts(values: Values, kind: ColumnKind) -> int:
    """The number of texts that mean a missing value in a column of this kind."""
    if isinstance(values, np.ndarray):
        return 0
    if isinstance(kind, Category):
        return sum(not value.strip() for value in values if isinstance(value, str))
    return sum(value.strip() in MISSING_TEXTS for value in values if isinstance(value, str))


def infer_kind(name: str, values: Values) -> str:
    """The name of the kind that fits the values.

    Raises InvalidInput if several kinds are plausible.
    """
    if isinstance(values, np.ndarray):
        return "boolean" if values.dtype.kind == "b" else "number"
    types = {_type_name(value) for value in values}
    if types == {"text"}:
        return _infer_text_kind(name, values)
    if len(types) > 1:
        shown = " and ".join(
            _shown(next(value for value in values if _type_name(value) == kind)) for kind in sorted(types)
        )
        raise InvalidInput(
            f"column {name!r} contains {' and '.join(sorted(types))} ({shown}). Use {_kind(name, 'number')} if "
            f"all are numbers, or {_kind(name, 'category')}"
        )
    value_type = types.pop()
    if value_type == "objects":
        raise InvalidInput(
            f"column {name!r} contains objects ({_shown(values[0])}). Name a field of the objects, such as "
            f"'{name}.{next(iter(values[0]), 'part') if isinstance(values[0], Mapping) else 'part'}'"
        )
    if value_type == "lists":
        return "vector" if all(_type_name(part) == "numbers" for part in _first_list(values)) else "list"
    return {"numbers": "number", "booleans": "boolean", "dates": "date"}[value_type]


def _infer_text_kind(name: str, values: Sequence[str]) -> str:
    counts = Counter(values)
    distinct = [value for value in counts if value.strip() not in MISSING_TEXTS] or list(counts)
    numeric = [value for value in distinct if _is_numeric(value)]
    if 2 * len(numeric) >= len(distinct):
        raise _numbers_as_text(name, numeric, [value for value in distinct if not _is_numeric(value)])
    words = {value.strip().lower() for value in distinct}
    if words <= TRUE | FALSE and any(pair <= words for pair in BOOLEAN_WORDS):
        return "boolean"
    dates = [value for value in distinct if ISO_DATE.fullmatch(value.strip())]
    if len(dates) == len(distinct):
        return "date"
    dates += [value for value in distinct if DOTTED_DATE.fullmatch(value.strip())]
    unread = [value for value in distinct if _is_unread_date(value.strip())]
    if unread and 2 * len(dates + unread) >= len(distinct):
        raise _unread_dates(name, unread[0])
    if 2 * len(dates) >= len(distinct):
        raise _dates_as_text(name, dates, [value for value in distinct if parse_date(value) is None])
    if len(counts) > MAX_ONE_HOT and len(counts) > MOSTLY_DISTINCT * len(values):
        raise InvalidInput(
            f"column {name!r} contains {len(counts):,} distinct texts in {len(values):,} rows "
            f"({' and '.join(map(_shown, distinct[:2]))}). Use {_kind(name, 'text')} for features of its words, "
            f"{_kind(name, 'hashed')} if it is a category, or {_kind(name, 'skip')} to leave it out"
        )
    return "category"


def _kind(column: str, kind: str) -> str:
    """Write the argument that declares the kind of a column, for a message."""
    return f"kinds={{{column!r}: {kind!r}}}"


def _is_numeric(text: str) -> bool:
    return parse_number(text) is not None or parse_decimal_comma(text) is not None


def _numbers_as_text(name: str, numeric: Sequence[str], others: Sequence[str]) -> InvalidInput:
    """The error of a text column with numbers, and maybe with other texts."""
    if others:
        return InvalidInput(
            f"column {name!r} contains numbers such as {_shown(numeric[0])}, but also {_shown(others[0])}, which is no "
            f"number. Correct such values or leave them empty, or use {_kind(name, 'category')}"
        )
    zeros = [value for value in numeric if LEADING_ZERO.match(value.strip())]
    if zeros:
        return InvalidInput(
            f"column {name!r} contains numbers with leading zeros ({_shown(zeros[0])}). Use {_kind(name, 'category')} "
            f"or {_kind(name, 'hashed')} if they are codes, such as postal codes, or {_kind(name, 'number')}"
        )
    commas = [value for value in numeric if "," in value]
    shown = " and ".join(map(_shown, [*commas, *sorted(numeric, key=str.isdigit)][:2]))
    if _comma_meaning(numeric) is None:
        return InvalidInput(_unclear_comma(name, numeric))
    split = f", {_kind(name, 'list')} if commas separate a list" if commas else ""
    return InvalidInput(
        f"column {name!r} contains numbers written as text ({shown}). Use {_kind(name, 'number')} to parse "
        f"them{split}, or {_kind(name, 'category')}"
    )


def _comma_meaning(texts: Sequence[str]) -> str | None:
    """What a comma means in texts of numbers: "decimal_comma", "thousands_comma", or None if that is not clear.

    It is a decimal comma if all texts can be read so, and at least one cannot have a decimal point, such as "5,78" or
    "1.234.567". It separates thousands if all texts can be read so, and at least one can have no decimal comma, such as
    "1,234.5" or "1,234,567", or there is no comma: the point in "1.234" is then a decimal point.
    """
    decimal = all(parse_decimal_comma(text) is not None for text in texts)
    thousands = all(parse_number(text) is not None for text in texts)
    if decimal and thousands and any("," in text for text in texts):
        return None
    return "thousands_comma" if thousands else "decimal_comma" if decimal else None


def _unclear_comma(name: str, texts: Sequence[str]) -> str:
    example = next((text for text in texts if "," in text), None)
    if example is None:
        thousands = next(text for text in texts if parse_number(text) is None)
        point = next(text for text in texts if parse_decimal_comma(text) is None)
        return (
            f"column {name!r} contains points that separate thousands ({_shown(thousands)}) and decimal points "
            f"({_shown(point)}). Write all numbers with decimal points only, or use {_kind(name, 'category')}"
        )
    return (
        f"column {name!r} contains numbers with commas ({_shown(example)}), which may be decimal commas or separate "
        f"thousands. Use {_kind(name, 'decimal_comma')} or {_kind(name, 'thousands_comma')}"
    )


def _dates_as_text(name: str, dates: Sequence[str], others: Sequence[str]) -> InvalidInput:
    """The error of a text column with dates that are not all in ISO 8601 format."""
    if others:
        return InvalidInput(
            f"column {name!r} contains dates such as {_shown(dates[0])}, but also {_shown(others[0])}, which is no "
            f"date. Correct such values or leave them empty and use {_kind(name, 'date')}, or use "
            f"{_kind(name, 'category')}"
        )
    dotted = next(value for value in dates if DOTTED_DATE.fullmatch(value.strip()))
    return InvalidInput(
        f"column {name!r} contains dates written as day.month.year ({_shown(dotted)}). Use {_kind(name, 'date')} "
        f"to parse them, or {_kind(name, 'category')}"
    )


def _is_unread_date(text: str) -> bool:
    """Whether a text is a date or a time in a format that `parse_date` does not read."""
    return OTHER_DATE.fullmatch(text) is not None or TIME_OF_DAY.fullmatch(text) is not None


def _unread_dates(name: str, example: str) -> InvalidInput:
    """The error of a text column with dates or times in a format that `parse_date` does not read."""
    what, advice = "dates in an unknown format", "Write dates as 2025-01-31 or 2025-01-31T18:00"
    if TIME_OF_DAY.fullmatch(example.strip()):
        what, advice = "times without a date", "Write the hour as a number, or add the date, as in 2025-01-31T18:00"
    return InvalidInput(
        f"column {name!r} contains {what} ({_shown(example)}). {advice}, or use {_kind(name, 'category')}, "
        f"{_kind(name, 'hashed')} or {_kind(name, 'skip')}"
    )


def _shown(value: object) -> str:
    return value_text(value, 40)


def _type_name(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "booleans"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Real | np.number) or type(value).__name__ == "Decimal":
        return "numbers"
    if isinstance(value, date | np.datetime64):
        return "dates"
    return "lists" if isinstance(value, list | tuple | set | frozenset | np.ndarray) else "objects"


def _first_list(values: Sequence[Any]) -> Sequence[Any]:
    return next((list(value) for value in values if len(value)), [])


def _number(values: Values, missing: Missing) -> Number:
    """Learn a number. The meaning of commas in texts is inferred."""
    texts: list[str] = []
    if not isinstance(values, np.ndarray):
        texts = [value for value in values if isinstance(value, str) and value.strip() not in MISSING_TEXTS]
    meaning = _comma_meaning(list(dict.fromkeys(texts)))
    if meaning is None and all(map(_is_numeric, texts)):
        raise UnclearComma(texts)
    return _number_with_comma(values, missing, decimal_comma=meaning == "decimal_comma")


class UnclearComma(Exception):
    """Texts of numbers in which commas may be decimal commas or separate thousands."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts


def _decimal_comma(values: Values, missing: Missing) -> Number:
    return _number_with_comma(values, missing, decimal_comma=True)


def _thousands_comma(values: Values, missing: Missing) -> Number:
    return _number_with_comma(values, missing, decimal_comma=False)


def _number_with_comma(values: Values, missing: Missing, *, decimal_comma: bool) -> Number:
    from_text = not isinstance(values, np.ndarray) and any(isinstance(value, str) for value in values)
    percent = from_text and any(isinstance(value, str) and has_percent_sign(value) for value in values)
    if isinstance(values, np.ndarray):
        amounts = values.astype(np.float64)
    else:
        if percent:
            _check_percent(values)
        parser = Number(missing="impute", from_text=from_text, decimal_comma=decimal_comma, percent=percent)
        parsed: list[float] = []
        parser.encode(values, 0, 0, [], parsed)
        amounts = np.array(parsed)
    if not np.isfinite(amounts).all():
        row = int(np.argmin(np.isfinite(amounts)))
        raise BadValue(row, "must be a finite number", float(amounts[row]))
    deviation = float(amounts.std()) if len(amounts) else 0.0
    scale = deviation if deviation > 1e-12 * max(1.0, float(np.abs(amounts).max(initial=0.0))) else 1.0
    mean = float(amounts.mean()) if len(amounts) else 0.0
    return Number(mean, scale, missing, from_text, decimal_comma and from_text, percent)


def _check_percent(values: Sequence[Any]) -> None:
    """Raise BadValue unless all values have a percent sign, except 0, missing values and texts that are no numbers."""
    with_sign: list[int] = []
    without: list[int] = []
    for row, value in enumerate(values):
        if isinstance(value, str) and (parse_decimal_comma(value) or parse_number(value)):
            (with_sign if has_percent_sign(value) else without).append(row)
        elif isinstance(value, Real) and value:
            without.append(row)
    if not with_sign or not without:
        return
    if len(without) <= len(with_sign):
        requirement = f"must have a percent sign, because others such as {_shown(values[with_sign[0]])} have one"
        raise BadValue(without[0], requirement, values[without[0]])
    requirement = f"must have no percent sign, because others such as {_shown(values[without[0]])} have none"
    raise BadValue(with_sign[0], requirement, values[with_sign[0]])


def _raw(values: Sequence[Any], missing: Missing) -> Number:
    return replace(_number(values, missing), mean=0.0, scale=1.0)


def _category(values: Sequence[Any], missing: Missing) -> Category | Hashed:
    counts = Counter(map(as_category, values))
    counts.pop(None, None)
    if len(counts) > MAX_ONE_HOT:
        return _hashed(values, missing)
    return Category(natural_order(text for text in counts if text is not None), missing=missing)


def _hashed(values: Sequence[Any], missing: Missing) -> Hashed:  # noqa: ARG001  (missing values are hashed too)
    distinct = len(set(map(as_category, values)))
    width = min(max(1 << (2 * distinct - 1).bit_length(), NARROWEST), WIDEST)
    return Hashed(width, digits=_code_digits(values))


def _code_digits(values: Sequence[Any]) -> int:
    """The number of digits of codes with leading zeros; 0 if none has a leading zero, or their lengths differ."""
    codes = {value.strip() for value in values if isinstance(value, str) and value.strip().isdigit()}
    lengths = set(map(len, codes))
    return lengths.pop() if len(lengths) == 1 and any(map(LEADING_ZERO.match, codes)) else 0


def _text(values: Sequence[Any], missing: Missing) -> Text:  # noqa: ARG001  (the features of a missing text are 0)
    return Text()


def _boolean(values: Sequence[Any], missing: Missing) -> Boolean:
    Boolean("impute").encode(values, 0, 0, [], [])
    return Boolean(missing)


def _date(values: Sequence[Any], missing: Missing) -> Date:
    Date(missing="impute").encode(values, 0, 0, [], [])
    moments = [moment for moment in map(parse_date, values) if moment is not None and moment != "missing"]
    if len({moment.tzinfo is None for moment in moments}) > 1:
        row = next(row for row, value in enumerate(values) if getattr(parse_date(value), "tzinfo", UTC) is None)
        raise BadValue(row, "must have a UTC offset, because others have one", values[row])
    hours = any(moment.hour or moment.minute for moment in moments)
    centre = sum(map(years_of, moments)) / max(1, len(moments))
    offsets: UtcOffset = "optional" if not moments else "refused" if moments[0].tzinfo is None else "required"
    return Date(centre, hours, missing, offsets)


def _tags(values: Sequence[Any], missing: Missing) -> Tags:  # noqa: ARG001  (the features of a missing list are 0)
    Tags(()).encode(values, 0, 0, [], [])
    counts = Counter(tag for value in values for tag in as_tags(value) or ())
    return Tags(natural_order(tag for tag, _ in counts.most_common(MAX_ONE_HOT)))


def _vector(values: Sequence[Any], missing: Missing) -> Vector:  # noqa: ARG001  (a missing vector is an error)
    learned = Vector(len(values[0]))
    learned.encode(values, 0, 0, [], [])
    return learned


LEARNERS = {
    "number": _number,
    "raw": _raw,
    "decimal_comma": _decimal_comma,
    "thousands_comma": _thousands_comma,
    "boolean": _boolean,
    "category": _category,
    "hashed": _hashed,
    "text": _text,
    "date": _date,
    "list": _tags,
    "vector": _vector,
}
"""Functions that learn the settings of a kind from values, by the name of the kind.

A raw number is neither centred nor scaled."""
