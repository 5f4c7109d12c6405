"""Infer the kinds of columns from their values.

Ambiguous values, such as numbers written as text, raise an error that asks the user for the kind.
"""

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from numbers import Real
from typing import TypeAlias

import numpy as np

from glbandits.common.errors import InvalidInput, lookup, value_text
from glbandits.features.kinds.categorical import CODE, Category
from glbandits.features.kinds.column_kind import MISSING_TEXTS, BadValue, ColumnKind, Missing, is_missing
from glbandits.features.kinds.dates import DOTTED_DATE, ISO_DATE, UNREAD_DATE, Date, parse_date
from glbandits.features.kinds.kind_learning import LEARNERS, MAX_ONE_HOT
from glbandits.features.kinds.numeric import BOOLEAN_WORDS, FALSE, TRUE, Boolean, Number, comma_meaning, is_numeric
from glbandits.features.table_columns import Values

MOSTLY_DISTINCT = 0.5
"""The share of distinct texts above which a text column is ambiguous: free text, or a category."""
SKIP = "skip"
IDENTIFIER = re.compile(
    r"(?:^|[^a-z])(?:(?:zip|plz|postal|zipcode|postcode|postalcode|postleitzahl|sku|ean|isbn|gtin)(?![a-z])"
    r"|(?:user|customer|client|visitor|account|item|product|order|session|device|store)?(?:id|ids|codes?)$)"
)
"""Names of columns whose numbers are codes rather than quantities, in lower case."""

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
    if declared is None and kind == "number" and has_name_of_codes(name) and _are_codes(present):
        warnings.warn(
            f"column {name!r} has whole numbers and the name of a code, but is used as a quantity, in which "
            f"{present[0]:.0f} is near {present[0] + 1:.0f}. Declare its kind: category or hashed for codes, such as "
            f"{_kind(name, 'category')} (--kind {name}=category), skip to leave it out, or number for a quantity",
            stacklevel=2,
        )
    if isinstance(present, np.ndarray) and kind not in ("number", "raw"):
        present = present.tolist()
    try:
        learned: ColumnKind = lookup("kind of a column", kind, LEARNERS | {SKIP: LEARNERS["text"]})(present, missing)
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


def has_name_of_codes(name: str) -> bool:
    """Whether the name of a column is that of a code or an identifier, such as user_id, userId or zip.

    >>> [has_name_of_codes(name) for name in ("userId", "PLZ", "zip_code", "bid", "age")]
    [True, True, True, False, False]
    """
    return IDENTIFIER.search(re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) is not None


def _are_codes(values: Values) -> bool:
    """Whether the numbers can be codes: whole numbers, none negative, with more than two different ones."""
    numbers = np.asarray(values, dtype=np.float64)
    return bool((numbers >= 0.0).all() and (numbers == np.floor(numbers)).all() and len(np.unique(numbers)) > 2)


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
    numeric = [value for value in distinct if is_numeric(value)]
    if 2 * len(numeric) >= len(distinct):
        raise _numbers_as_text(name, numeric, [value for value in distinct if not is_numeric(value)])
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
    if comma_meaning(numeric) is None:
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
