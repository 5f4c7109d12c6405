"""Learn the kinds of columns from their values. What could be meant in two ways is a question, never a guess."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from glbandits.errors import InvalidInput, lookup
from glbandits.features.kinds.categorical import Category, Hashed, Tags, Text, as_category, as_tags
from glbandits.features.kinds.column_kind import MISSING_TEXTS, BadValue, ColumnKind, Missing, Values, is_missing
from glbandits.features.natural_order import natural_order
from glbandits.features.kinds.numeric import Boolean, Date, Number, Vector, parse_number, read_date, years_of

MOST_ONE_HOT = 50
"""Different values of a category that get a feature each. With more, it is hashed."""
MOSTLY = 0.5
"""Text is mostly distinct if it has more different values than this share of its rows."""
NARROWEST, WIDEST = 128, 1024
"""Features of a hashed category: twice its values, within these bounds."""
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
SKIP = "skip"

Kinds: TypeAlias = Mapping[str, str | ColumnKind]
"""Of some columns, by name: the name of a kind, "skip", or a kind with all of its settings."""


def learn_kinds(columns: Mapping[str, Values], kinds: Kinds, missing: Missing) -> dict[str, ColumnKind]:
    """The kind of each column that is not skipped. Raises InvalidInput with all questions at once."""
    learned: dict[str, ColumnKind] = {}
    questions: list[str] = []
    for name, values in columns.items():
        wanted = kinds.get(name)
        if wanted == SKIP:
            continue
        try:
            learned[name] = wanted if isinstance(wanted, ColumnKind) else learn_kind(name, values, wanted, missing)
        except InvalidInput as question:
            questions.append(str(question))
    if questions:
        raise InvalidInput("\n".join(questions))
    return learned


def learn_kind(name: str, values: Values, wanted: str | None, missing: Missing) -> ColumnKind:
    """The kind of a column: the wanted one, or else the one that its values tell."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        gone: Any = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=np.bool_)
        present = values[~gone]
        if wanted not in (None, "number", "raw"):
            present = present.tolist()
    else:
        present = [value for value in values if not is_missing(value)]
    if not len(present):
        raise InvalidInput(f"column {name!r} holds no value. Leave it out")
    has_missing = len(present) < len(values)
    if missing == "error" and has_missing:
        raise InvalidInput(
            f"column {name!r} has {len(values) - len(present)} missing values. Fill them in, or use "
            "missing='indicator' or 'impute'"
        )
    here: Missing = "impute" if missing == "indicator" and not has_missing else missing
    kind = guess(name, present) if wanted is None else wanted
    try:
        return lookup("kind of a column", kind, LEARNERS)(present, here)
    except BadValue as bad:
        raise InvalidInput(
            f"column {name!r}: it {bad.need}; got {bad.got!r}. Write kinds={{{name!r}: 'category'}}, or correct it"
        ) from None


def guess(name: str, values: Values) -> str:
    """The name of the kind that the values tell. Raises InvalidInput with a question if they tell none."""
    if isinstance(values, np.ndarray):
        return "boolean" if values.dtype.kind == "b" else "number"
    types = {_type(value) for value in values}
    if types == {"text"}:
        return _guess_text(name, values)
    if len(types) > 1:
        shown = " and ".join(_shown(next(value for value in values if _type(value) == kind)) for kind in sorted(types))
        raise InvalidInput(
            f"column {name!r} holds {' and '.join(sorted(types))} ({shown}). Write kinds={{{name!r}: 'number'}} if all "
            f"are numbers, or kinds={{{name!r}: 'category'}}"
        )
    found = types.pop()
    if found == "objects":
        raise InvalidInput(
            f"column {name!r} holds objects ({_shown(values[0])}). Name a value in them, such as "
            f"'{name}.{next(iter(values[0]), 'part') if isinstance(values[0], Mapping) else 'part'}'"
        )
    if found == "lists":
        return "vector" if all(_type(part) == "numbers" for part in _first_list(values)) else "list"
    return {"numbers": "number", "booleans": "boolean", "dates": "date"}[found]


def _guess_text(name: str, values: Sequence[str]) -> str:
    counts = Counter(values)
    distinct = [value for value in counts if value.strip() not in MISSING_TEXTS] or list(counts)
    numeric = [value for value in distinct if parse_number(value) is not None]
    if 2 * len(numeric) >= len(distinct):
        odd = [value for value in distinct if parse_number(value) is None]
        shown = " and ".join(map(_shown, [*odd[:1], *sorted(numeric, key=str.isdigit)][:2]))
        raise InvalidInput(
            f"column {name!r} holds numbers that are written as text ({shown}). Write kinds={{{name!r}: 'number'}} to "
            f"read them as numbers, or kinds={{{name!r}: 'category'}}"
        )
    if all(ISO_DATE.fullmatch(value.strip()) for value in distinct):
        return "date"
    if len(counts) > MOST_ONE_HOT and len(counts) > MOSTLY * len(values):
        raise InvalidInput(
            f"column {name!r} holds {len(counts):,} different texts in {len(values):,} rows "
            f"({' and '.join(map(_shown, distinct[:2]))}). Write kinds={{{name!r}: 'text'}} to use its words, "
            f"kinds={{{name!r}: 'hashed'}} if it is a category, or kinds={{{name!r}: 'skip'}} to leave it out"
        )
    return "category"


def _shown(value: object) -> str:
    return repr(value)[:40]


def _type(value: object) -> str:
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
    from_text = not isinstance(values, np.ndarray) and any(isinstance(value, str) for value in values)
    if isinstance(values, np.ndarray):
        amounts = values.astype(np.float64)
    else:
        reader, amounts_read = Number(missing="impute", from_text=from_text), list[float]()
        reader.encode(values, 0, 0, [], amounts_read)
        amounts = np.array(amounts_read)
        if len(amounts) < len(values) and missing == "impute":
            missing = "indicator"
    if not np.isfinite(amounts).all():
        raise BadValue(0, "must hold finite numbers", float(amounts[~np.isfinite(amounts)][0]))
    deviation = float(amounts.std()) if len(amounts) else 0.0
    scale = deviation if deviation > 1e-12 * max(1.0, float(np.abs(amounts).max(initial=0.0))) else 1.0
    return Number(float(amounts.mean()) if len(amounts) else 0.0, scale, missing, from_text)


def _raw(values: Sequence[Any], missing: Missing) -> Number:
    learned = _number(values, missing)
    return Number(0.0, 1.0, learned.missing, learned.from_text)


def _category(values: Sequence[Any], missing: Missing) -> Category | Hashed:
    counts = Counter(map(as_category, values))
    if counts.pop(None, 0) and missing == "impute":
        missing = "indicator"
    if len(counts) > MOST_ONE_HOT:
        return _hashed(values, missing)
    return Category(natural_order(text for text in counts if text is not None), missing=missing)


def _hashed(values: Sequence[Any], missing: Missing) -> Hashed:  # noqa: ARG001  (a missing value is hashed too)
    distinct = len(set(map(as_category, values)))
    return Hashed(min(max(1 << (2 * distinct - 1).bit_length(), NARROWEST), WIDEST))


def _text(values: Sequence[Any], missing: Missing) -> Text:  # noqa: ARG001  (no text has no words)
    return Text()


def _boolean(values: Sequence[Any], missing: Missing) -> Boolean:
    Boolean("impute").encode(values, 0, 0, [], [])
    return Boolean(missing)


def _date(values: Sequence[Any], missing: Missing) -> Date:
    Date(missing="impute").encode(values, 0, 0, [], [])
    moments = [moment for moment in map(read_date, values) if moment is not None and moment != "missing"]
    if len(moments) < len(values) and missing == "impute":
        missing = "indicator"
    hours = any(moment.hour or moment.minute for moment in moments)
    return Date(sum(map(years_of, moments)) / max(1, len(moments)), hours, missing)


def _tags(values: Sequence[Any], missing: Missing) -> Tags:  # noqa: ARG001  (no list has no categories)
    Tags(()).encode(values, 0, 0, [], [])
    counts = Counter(tag for value in values for tag in as_tags(value) or ())
    return Tags(natural_order(tag for tag, _ in counts.most_common(MOST_ONE_HOT)))


def _vector(values: Sequence[Any], missing: Missing) -> Vector:  # noqa: ARG001  (a missing one is refused)
    learned = Vector(len(values[0]))
    learned.encode(values, 0, 0, [], [])
    return learned


LEARNERS = {
    "number": _number,
    "raw": _raw,
    "boolean": _boolean,
    "category": _category,
    "hashed": _hashed,
    "text": _text,
    "date": _date,
    "list": _tags,
    "vector": _vector,
}
"""By the name that a user writes. A raw number is neither centred nor scaled."""
