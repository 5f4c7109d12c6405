"""Infer the kinds of columns from their values.

Ambiguous values, such as numbers written as text, raise an error that asks the user for the kind.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from glbandits.common.errors import InvalidInput, lookup, value_text
from glbandits.features.kinds.categorical import CODE, Category, Tags, as_category, as_tags, natural_order
from glbandits.features.kinds.column_kind import MISSING_TEXTS, BadValue, ColumnKind, Missing, is_missing
from glbandits.features.kinds.dates import DOTTED_DATE, ISO_DATE, UNREAD_DATE, Date, UtcOffset, parse_date, years_of
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.numeric import BOOLEAN_WORDS, FALSE, TRUE, Boolean, Number, Vector, parse_number
from glbandits.features.table_columns import Values

MAX_ONE_HOT = 50
"""The largest number of categories with a feature each. A column with more categories is hashed."""
MOSTLY_DISTINCT = 0.5
"""The share of distinct texts above which a text column is ambiguous: free text, or a category."""
NARROWEST, WIDEST = 128, 1024
"""Bounds of the number of features of a hashed category, which is about twice its number of categories."""
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
    present = _present(values)
    if not len(present):
        raise InvalidInput(f"column {name!r} has no values. Leave it out")
    if missing == "error" and len(present) < len(values):
        raise _missing_values(name, len(values) - len(present))
    kind = infer_kind(name, present) if declared is None else declared
    if isinstance(present, np.ndarray) and kind not in ("number", "raw"):
        present = present.tolist()
    try:
        learned: ColumnKind = lookup("kind of a column", kind, LEARNERS | {SKIP: _text})(present, missing)
    except BadValue as bad:
        index = [index for index, value in enumerate(values) if not is_missing(value)][bad.row]
        row = "" if row_step is None else f", row {index * row_step}"
        raise InvalidInput(
            f"column {name!r}{row}: each value {bad.requirement}; got {_shown(bad.value)}. Correct it, or use "
            f"{_kind(name, 'category')}"
        ) from None
    if isinstance(learned, Number | Boolean | Category | Date):
        count = missing_count(values, learned)
        if missing == "error" and count:
            raise _missing_values(name, count)
        if missing == "indicator" and not count:
            return replace(learned, missing="impute")
    return learned


def _present(values: Values) -> Values:
    """The values that are not missing, of an array of numbers as an array."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return values[~np.isnan(values)]
    return [value for value in values if not is_missing(value)]


def missing_count(values: Values, kind: ColumnKind) -> int:
    """The number of missing values. Texts such as "NA" count, but in a category only empty texts."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return int(np.isnan(values).sum())
    texts = {""} if isinstance(kind, Category) else MISSING_TEXTS
    return sum(is_missing(value) or (isinstance(value, str) and value.strip() in texts) for value in values)


def _missing_values(name: str, count: int) -> InvalidInput:
    return InvalidInput(
        f"column {name!r} has {count} missing values. Fill them in, or use missing='indicator' or missing='impute'",
        field="missing",
    )


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
        first = next((list(value) for value in values if len(value)), [])
        return "vector" if all(_type_name(part) == "numbers" for part in first) else "list"
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
    unread = [value for value in distinct if UNREAD_DATE.fullmatch(value.strip())]
    if 2 * len(dates + unread) >= len(distinct):
        raise _dates_as_text(name, dates, unread or [value for value in distinct if parse_date(value) is None])
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
    return parse_number(text) is not None or parse_number(text, decimal_comma=True) is not None


def _numbers_as_text(name: str, numeric: Sequence[str], others: Sequence[str]) -> InvalidInput:
    """The error of a text column with numbers, and maybe with other texts."""
    if others:
        return InvalidInput(
            f"column {name!r} contains numbers such as {_shown(numeric[0])}, but also {_shown(others[0])}, which is no "
            f"number. Correct such values or leave them empty, or use {_kind(name, 'category')}"
        )
    zeros = [value for value in numeric if CODE.fullmatch(value.strip())]
    if zeros:
        return InvalidInput(
            f"column {name!r} contains numbers with leading zeros ({_shown(zeros[0])}). Use {_kind(name, 'category')} "
            f"or {_kind(name, 'hashed')} if they are codes, such as postal codes, or {_kind(name, 'number')}"
        )
    commas = [value for value in numeric if "," in value]
    if _comma_meaning(numeric) is None:
        example = (commas or sorted(numeric, key=lambda text: -text.count(".")))[0]
        return InvalidInput(
            f"column {name!r} contains numbers such as {_shown(example)}, in which a comma or a point may be decimal "
            f"or separate thousands. Use {_kind(name, 'decimal_comma')} or {_kind(name, 'thousands_comma')}"
        )
    shown = " and ".join(map(_shown, [*commas, *sorted(numeric, key=str.isdigit)][:2]))
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
    decimal = all(parse_number(text, decimal_comma=True) is not None for text in texts)
    thousands = all(parse_number(text) is not None for text in texts)
    if decimal and thousands and any("," in text for text in texts):
        return None
    return "thousands_comma" if thousands else "decimal_comma" if decimal else None


def _dates_as_text(name: str, dates: Sequence[str], others: Sequence[str]) -> InvalidInput:
    """The error of a text column with dates that are not all in ISO 8601 format.

    Args:
        name: the column.
        dates: values in ISO 8601 format, or written as day.month.year.
        others: values that cannot be read as dates.
    """
    if others:
        return InvalidInput(
            f"column {name!r} contains dates or times, but {_shown(others[0])} cannot be read. Write all of them as "
            f"2025-01-31 or 2025-01-31T18:00, or use {_kind(name, 'category')}, {_kind(name, 'hashed')} or "
            f"{_kind(name, 'skip')}"
        )
    dotted = next(value for value in dates if DOTTED_DATE.fullmatch(value.strip()))
    return InvalidInput(
        f"column {name!r} contains dates written as day.month.year ({_shown(dotted)}). Use {_kind(name, 'date')} "
        f"to parse them, or {_kind(name, 'category')}"
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


def _number(values: Values, missing: Missing) -> Number:
    """Learn a number. The meaning of commas in texts is inferred."""
    texts: dict[str, int] = {}
    if not isinstance(values, np.ndarray):
        for row, value in enumerate(values):
            if isinstance(value, str) and value.strip() not in MISSING_TEXTS:
                texts.setdefault(value, row)
    meaning = _comma_meaning(list(texts))
    if meaning is None and all(map(_is_numeric, texts)):
        example = max(texts, key=lambda text: ("," in text, text.count(".")))
        requirement = "must show whether a comma is decimal or separates thousands, or be declared as decimal_comma or "
        raise BadValue(texts[example], f"{requirement}thousands_comma", example)
    return _number_with_comma(values, missing, decimal_comma=meaning == "decimal_comma")


def _number_with_comma(values: Values, missing: Missing, *, decimal_comma: bool) -> Number:
    from_text = not isinstance(values, np.ndarray) and any(isinstance(value, str) for value in values)
    percent = from_text and any(isinstance(value, str) and value.rstrip().endswith("%") for value in values)
    if isinstance(values, np.ndarray):
        amounts = values.astype(np.float64)
    else:
        for row, value in enumerate(values):
            if percent and isinstance(value, Real) and value:
                raise BadValue(row, "must have a percent sign, as others of the column", value)
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
    return lengths.pop() if len(lengths) == 1 and any(map(CODE.fullmatch, codes)) else 0


def _text(values: Sequence[Any], missing: Missing) -> Text:  # noqa: ARG001  (the features of a missing text are 0)
    return Text()


def _boolean(values: Sequence[Any], missing: Missing) -> Boolean:
    Boolean("impute").encode(values, 0, 0, [], [])
    return Boolean(missing)


def _date(values: Sequence[Any], missing: Missing) -> Date:
    moments = [moment for moment in map(parse_date, values) if isinstance(moment, datetime)]
    offset: UtcOffset = "optional" if not moments else "required" if any(m.tzinfo for m in moments) else "refused"
    Date(missing="impute", utc_offset=offset).encode(values, 0, 0, [], [])
    hours = any(moment.hour or moment.minute for moment in moments)
    return Date(sum(map(years_of, moments)) / max(1, len(moments)), hours, missing, offset)


def _tags(values: Sequence[Any], missing: Missing) -> Tags:  # noqa: ARG001  (the features of a missing list are 0)
    Tags(()).encode(values, 0, 0, [], [])
    counts = Counter(tag for value in values for tag in as_tags(value) or ())
    return Tags(natural_order(tag for tag, _ in counts.most_common(MAX_ONE_HOT)))


def _vector(values: Sequence[Any], missing: Missing) -> Vector:  # noqa: ARG001  (a missing vector is an error)
    learned = Vector(len(values[0]) if hasattr(values[0], "__len__") else 1)
    learned.encode(values, 0, 0, [], [])
    return learned


LEARNERS: dict[str, Callable[[Any, Missing], ColumnKind]] = {
    "number": _number,
    "raw": _raw,
    "decimal_comma": partial(_number_with_comma, decimal_comma=True),
    "thousands_comma": partial(_number_with_comma, decimal_comma=False),
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
