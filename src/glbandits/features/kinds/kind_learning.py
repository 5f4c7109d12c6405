"""Learn the settings of a kind of column from values: means, scales, categories, formats of numbers and dates."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from glbandits.common.errors import MAX_ABS
from glbandits.features.kinds.categorical import CODE, DIGITS, Category, Tags, as_category, as_tags, natural_order
from glbandits.features.kinds.column_kind import MISSING_TEXTS, BadValue, ColumnKind, Missing
from glbandits.features.kinds.dates import Date, UtcOffset, parse_date, years_of
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.numeric import IN_RANGE, UNCLEAR_COMMA, Boolean, Number, Vector, comma_meaning, is_numeric
from glbandits.features.table_columns import Values

MAX_ONE_HOT = 50
"""The largest number of categories with a feature each. A column with more categories is hashed."""
NARROWEST, WIDEST = 128, 1024
"""Bounds of the number of features of a hashed category, which is about twice its number of categories."""


def _number(values: Values, missing: Missing) -> Number:
    """Learn a number. The meaning of commas in texts is inferred."""
    texts: dict[str, int] = {}
    if not isinstance(values, np.ndarray):
        for row, value in enumerate(values):
            if isinstance(value, str) and value.strip() not in MISSING_TEXTS:
                texts.setdefault(value, row)
    meaning = comma_meaning(list(texts))
    if meaning is None and all(map(is_numeric, texts)):
        example = max(texts, key=lambda text: ("," in text, text.count(".")))
        raise BadValue(texts[example], UNCLEAR_COMMA, example)
    is_shown = any("," in text or "." in text for text in texts)
    return _number_with_comma(values, missing, decimal_comma=meaning == "decimal_comma" if is_shown else None)


def _number_with_comma(values: Values, missing: Missing, *, decimal_comma: bool | None) -> Number:
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
    if not (np.abs(amounts) <= MAX_ABS).all():
        row = int(np.argmax(np.abs(amounts)))
        raise BadValue(row, IN_RANGE, float(amounts[row]))
    deviation = float(amounts.std()) if len(amounts) else 0.0
    scale = deviation if deviation > 1e-12 * max(1.0, float(np.abs(amounts).max(initial=0.0))) else 1.0
    mean = float(amounts.mean()) if len(amounts) else 0.0
    return Number(mean, scale, missing, from_text, decimal_comma if from_text else False, percent)


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
    """The setting `digits` of a hashed column."""
    codes = {code for code in map(as_category, values) if code is not None and DIGITS.fullmatch(code)}
    if not any(map(CODE.fullmatch, codes)):
        return 1 if codes else 0
    lengths = set(map(len, codes))
    return lengths.pop() if len(lengths) == 1 else 0


def _text(values: Sequence[Any], missing: Missing) -> Text:  # noqa: ARG001  (the features of a missing text are 0)
    return Text()


def _boolean(values: Sequence[Any], missing: Missing) -> Boolean:
    indices: list[int] = []
    numbers: list[float] = []
    Boolean("indicator").encode(values, 0, 2, indices, numbers)  # odd indices are of missing values
    known = [number for index, number in zip(indices, numbers, strict=True) if index % 2 == 0]
    return Boolean(missing, sum(known) / len(known) if known else 0.5)


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
