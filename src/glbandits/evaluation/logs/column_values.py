"""A column of a table as an array: every value a number, or an error that names the column and the row."""

from collections.abc import Iterable, Sequence
from itertools import chain
from numbers import Number
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from glbandits.errors import MAX_ABS, InvalidInput
from glbandits.features.kinds.categorical import as_category
from glbandits.features.kinds.column_kind import MISSING_TEXTS
from glbandits.records import Floats, Ints

WRITE_A_NUMBER = "Write it as a plain number, 0.12 for 12%"

Where: TypeAlias = int | Ints
"""Row numbers, for errors: that of the first value, or of each."""


def column_of(name: str, values: Iterable[Any]) -> pl.Series:
    """A column of these values: numbers, text, or lists of them, within each other or not, which may be arrays."""
    plain = _with_lists(list(values))
    kinds = _kinds(plain)
    if kinds == {"numbers", "text"} and not any(isinstance(value, list) for value in plain):
        plain, kinds = list(map(as_category, plain)), {"text"}  # what the text means, the feature map asks
    if len(kinds) > 1:
        raise InvalidInput(
            f"column {name!r} must hold values of one kind; got {' and '.join(sorted(kinds))}. Make all of them "
            "numbers, or all text"
        )
    try:
        return pl.Series(name, plain, strict=False)  # strict, 0 before 1.5 is an error, and [0] before [1.5] makes it 1
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"column {name!r} could not be read: {error}") from None


def _with_lists(values: list[Any]) -> list[Any]:
    """Lists in place of arrays and tuples, within each other too."""
    if not any(issubclass(kind, list | tuple | np.ndarray) for kind in set(map(type, values))):
        return values
    lists = (value.tolist() if isinstance(value, np.ndarray) else value for value in values)
    return [_with_lists(list(value)) if isinstance(value, list | tuple) else value for value in lists]


def _kinds(values: list[Any]) -> set[str]:
    """Of the values that are there, or of what is in them if all are lists."""
    kinds = {_kind(kind) for kind in set(map(type, values)) - {NoneType}}
    if kinds != {"lists"}:
        return kinds
    return _kinds(list(chain.from_iterable(value for value in values if value is not None)))


def _kind(kind: type) -> str:
    if issubclass(kind, Number | np.bool_):
        return "numbers"
    return "text" if issubclass(kind, str) else "lists" if issubclass(kind, list) else kind.__name__


def is_text(kind: pl.DataType) -> bool:
    """Whether a column holds text."""
    return isinstance(kind, pl.String | pl.Categorical | pl.Enum)


def is_number(kind: pl.DataType) -> bool:
    """Whether a column holds numbers, or true and false, which are read as 1 and 0."""
    return kind.is_numeric() or isinstance(kind, pl.Boolean)


def numbers(series: pl.Series, where: Where = 0) -> Floats:
    """The values as float64, (n,). Text is read as a number where it is one."""
    if not (is_number(series.dtype) or is_text(series.dtype)):
        raise InvalidInput(f"column {series.name!r} must hold numbers; got {series.dtype}")
    text = series.cast(pl.String) if is_text(series.dtype) else series
    values: Floats = np.ascontiguousarray(text.cast(pl.Float64, strict=False).to_numpy(), dtype=np.float64)
    bad = ~(np.abs(values) <= MAX_ABS)
    if bad.any():
        row = int(np.argmax(bad))
        is_given = isinstance(series[row], str) and series[row].strip() not in MISSING_TEXTS
        advice = WRITE_A_NUMBER if is_given else "Fill in or drop the rows where it is missing"
        raise wrong(series, row, where, "must be a finite number", advice)
    return values


def column_values(series: pl.Series) -> Any:
    """The values of a column as a feature map takes them: an array of numbers with NaN, or a list."""
    if series.dtype.is_numeric():
        return np.ascontiguousarray(series.cast(pl.Float64).to_numpy(), dtype=np.float64)
    return (series.cast(pl.String) if is_text(series.dtype) else series).to_list()


def whole_numbers(series: pl.Series, where: Where = 0) -> Ints:
    """The values as int64, (n,)."""
    values = numbers(series, where)
    bad = values != np.floor(values)
    if bad.any():
        raise wrong(series, int(np.argmax(bad)), where, "must be a whole number")
    return values.astype(np.int64)


def codes(series: pl.Series, known: Sequence[str], where: Where = 0, *, mend: str) -> Ints:
    """The place of each text among the known ones, (n,)."""
    found = series.cast(pl.String).cast(pl.Enum(known), strict=False).to_physical()
    unknown = found.is_null()
    if unknown.any():
        row = int(unknown.arg_max() or 0)
        if series[row] is None:
            raise wrong(series, row, where, "must not be missing", "Fill in or drop such rows")
        raise wrong(series, row, where, f"must be one of {_some(known)}", mend)
    return found.cast(pl.Int64).to_numpy()


def cluster_numbers(series: pl.Series, where: Where = 0) -> Ints:
    """A number for each value, the same one in all blocks of a table.

    What is not a whole number is hashed to 64 bits: two of a million clusters are taken for one with probability 3e-8.
    """
    if series.null_count():
        raise wrong(series, int(series.is_null().arg_max() or 0), where, "must not be missing", "Give it a value")
    if series.dtype.is_integer():
        return series.cast(pl.Int64, wrap_numerical=True).to_numpy()
    plain = series.cast(pl.String) if is_text(series.dtype) else series
    return plain.hash(seed=0).reinterpret(signed=True).to_numpy()


def wrong(series: pl.Series, row: int, where: Where, need: str, mend: str = "") -> InvalidInput:
    """The error that a value of a column deserves. Rows are counted from 0."""
    got, number = series[row], where + row if isinstance(where, int) else where[row]
    plain = got.to_list() if isinstance(got, pl.Series) else got
    value = "none" if plain is None else repr(plain)[:60]
    ending = f". {mend}" if mend else ""
    return InvalidInput(f"column {series.name!r}, row {number}: it {need}; got {value}{ending}")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:8]))
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
