"""Convert columns of a table to arrays.

Errors name the column and the row of an invalid value.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput, value_text
from glbandits.features.kinds.column_kind import MISSING_TEXTS
from glbandits.features.kinds.numeric import FALSE, TRUE, parse_number

DECIMAL_COMMA, THOUSANDS_COMMA = r"^[+-]?\d*,\d+$", r"^[+-]?[1-9]\d{0,2},\d{3}$"
MAX_EXACT = 2**53
"""The largest integer up to which float64 represents all integers."""
WORDS = (TRUE | FALSE) - {"1", "0"}
"""Texts of rewards that are 1 or 0, in lower case."""
NUMBER_ADVICE = "Write it as a plain number, 0.12 for 12%"

RowNumbers: TypeAlias = int | Ints
"""Row numbers for error messages: of the first value, or of each value."""


def is_text(dtype: pl.DataType) -> bool:
    """Whether a column has text."""
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


def is_number(dtype: pl.DataType) -> bool:
    """Whether a column has numbers, or booleans, which are read as 1 and 0."""
    return dtype.is_numeric() or isinstance(dtype, pl.Boolean)


def float_values(series: pl.Series, row_numbers: RowNumbers = 0) -> Floats:
    """Return the values as float64, (n,). Text is parsed, with a decimal point or unambiguous decimal commas.

    Raises InvalidInput unless all are finite numbers.
    """
    if not (is_number(series.dtype) or is_text(series.dtype)):
        raise InvalidInput(f"column {series.name!r} must have numbers; got {series.dtype}")
    text = _with_decimal_points(series.cast(pl.String)) if is_text(series.dtype) else series
    values: Floats = np.ascontiguousarray(text.cast(pl.Float64, strict=False).to_numpy(), dtype=np.float64)
    invalid = ~(np.abs(values) <= MAX_ABS)
    if invalid.any():
        row = int(np.argmax(invalid))
        is_text_value = isinstance(series[row], str) and series[row].strip() not in MISSING_TEXTS
        advice = _number_advice(series[row]) if is_text_value else "Fill in or drop rows without a value"
        raise column_error(series, row, row_numbers, "must be a finite number", advice)
    return values


def reward_values(series: pl.Series, row_numbers: RowNumbers = 0) -> Floats:
    """Return rewards as float64, (n,). As `float_values`, but texts such as "yes" and "no" are 1 and 0.

    Raises InvalidInput unless all are finite numbers, or all are such texts.
    """
    if not is_text(series.dtype):
        return float_values(series, row_numbers)
    plain = series.cast(pl.String).str.strip_chars()
    words = plain.str.to_lowercase()
    if not words.is_in(list(WORDS)).any():
        return float_values(series, row_numbers)
    wrong = ~(words.is_in(list(TRUE | FALSE)) | plain.is_in(list(MISSING_TEXTS))).fill_null(True)
    if wrong.any():
        example = series[int(words.is_in(list(WORDS)).arg_max() or 0)]
        need = f"must be a word such as {example!r}, as other rewards are, or 1 or 0"
        raise column_error(series, int(wrong.arg_max() or 0), row_numbers, need)
    amounts = words.replace_strict({word: float(word in TRUE) for word in TRUE | FALSE}, default=None)
    return float_values(amounts.cast(pl.Float64), row_numbers)


def _with_decimal_points(texts: pl.Series) -> pl.Series:
    """Replace decimal commas by points, unless a comma may separate thousands or a text has a point."""
    plain = texts.str.strip_chars()
    with_comma = plain.filter(plain.str.contains(",", literal=True))
    if with_comma.is_empty() or plain.str.contains(".", literal=True).any():
        return texts
    if not with_comma.str.contains(DECIMAL_COMMA).all() or with_comma.str.contains(THOUSANDS_COMMA).all():
        return texts
    return plain.str.replace(",", ".", literal=True)


def _number_advice(text: str) -> str:
    if text.strip().lower() in TRUE | FALSE:
        return "Write 1 for yes and 0 for no"
    has_decimal_comma = "," in text and parse_number(text, decimal_comma=True) is not None
    return "Write numbers with a decimal point, such as 0.12" if has_decimal_comma else NUMBER_ADVICE


def column_values(series: pl.Series) -> Any:
    """Return the input for a feature map: an array of numbers with NaN, or a list.

    Integers that float64 cannot represent, such as ids of 18 digits, stay integers in a list.
    """
    if series.dtype.is_integer() and max(_limit(series.max()), -_limit(series.min())) > MAX_EXACT:
        return series.to_list()
    if series.dtype.is_numeric():
        return np.ascontiguousarray(series.cast(pl.Float64).to_numpy(), dtype=np.float64)
    return (series.cast(pl.String) if is_text(series.dtype) else series).to_list()


def _limit(value: Any) -> int:
    return 0 if value is None else int(value)


def int_values(series: pl.Series, row_numbers: RowNumbers = 0) -> Ints:
    """Return the values as int64, (n,). Raises InvalidInput unless all are whole numbers."""
    values = float_values(series, row_numbers)
    invalid = values != np.floor(values)
    if invalid.any():
        raise column_error(series, int(np.argmax(invalid)), row_numbers, "must be a whole number")
    return values.astype(np.int64)


def name_indices(series: pl.Series, known: Sequence[str], row_numbers: RowNumbers = 0, *, advice: str) -> Ints:
    """Return the index of each text in `known`, (n,).

    Raises InvalidInput if one is missing or unknown.
    """
    indices = series.cast(pl.String).cast(pl.Enum(known), strict=False).to_physical()
    unknown = indices.is_null()
    if unknown.any():
        row = int(unknown.arg_max() or 0)
        if series[row] is None:
            raise column_error(series, row, row_numbers, "must not be missing", "Fill it in, or drop such rows")
        raise column_error(series, row, row_numbers, f"must be one of {some_names(known)}", advice)
    return indices.cast(pl.Int64).to_numpy()


def cluster_ids(series: pl.Series, row_numbers: RowNumbers = 0) -> Ints:
    """Return an integer for each value.

    Equal values get the same integer in all blocks of a table.

    Values that are not whole numbers are hashed to 64 bits. Among a million clusters, any two collide with probability
    3e-8.
    """
    if series.null_count():
        raise column_error(
            series,
            int(series.is_null().arg_max() or 0),
            row_numbers,
            "must not be missing",
            "Fill it in, or drop such rows",
        )
    if series.dtype.is_integer():
        return series.cast(pl.Int64, wrap_numerical=True).to_numpy()
    plain = series.cast(pl.String) if is_text(series.dtype) else series
    return plain.hash(seed=0).reinterpret(signed=True).to_numpy()


def column_error(
    series: pl.Series, row: int, row_numbers: RowNumbers, need: str, advice: str = "", field: str | None = None
) -> InvalidInput:
    """Return the error for a value of a column. Rows are counted from 0."""
    got, number = series[row], row_numbers + row if isinstance(row_numbers, int) else row_numbers[row]
    plain = got.to_list() if isinstance(got, pl.Series) else got
    value = "none" if plain is None else value_text(plain)
    ending = f". {advice}" if advice else ""
    return InvalidInput(f"column {series.name!r}, row {number}: the value {need}; got {value}{ending}", field=field)


def some_names(names: Sequence[str]) -> str:
    """Return the first names for a message, and how many more there are."""
    shown = ", ".join(map(repr, names[:8]))
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
