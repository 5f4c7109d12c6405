"""Tables as polars frames: of pandas, Arrow, lists of dicts, dicts of columns, and files with a row for each arm."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from numbers import Number
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.csv_files import read_csv_frame
from glbandits.features.kinds.categorical import as_category
from glbandits.features.table_columns import is_table, table_columns

ROW_NUMBER = re.compile(r", row \d+:")


@contextmanager
def convert_polars_errors() -> Iterator[None]:
    """Convert errors of polars to InvalidInput."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"the table could not be read: {str(error).partition(chr(10))[0]}") from None


@contextmanager
def explain_row_numbers() -> Iterator[None]:
    """Add to an InvalidInput that names a row how rows are counted."""
    try:
        yield
    except InvalidInput as error:
        if ROW_NUMBER.search(str(error)) is None:
            raise
        raise InvalidInput(f"{error}. Rows are counted from 0, without the header", field=error.field) from None


def read_arm_table(table: Any, texts: Collection[str] | None = (), *, name: str = "arm_table") -> pl.DataFrame:
    """Return a table with a row for each arm as a data frame, from a table or from a CSV or Parquet file.

    Args:
        table: the table, or the path of a file.
        texts: columns of a CSV file that stay text; None for all. So do columns with leading zeros.
        name: the argument of the caller, for messages.
    """
    if not isinstance(table, str | PathLike):
        return as_frame(table)
    path = Path(table)
    if not path.is_file():
        raise InvalidInput(
            f"{name} must be a Parquet or CSV file with a row for each arm; {path} is not a file", field=name
        )
    try:
        if path.name.endswith((".csv", ".csv.gz", ".tsv")):
            return read_csv_frame(path, texts)
        return pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{name}: {path} could not be read: {error}", field=name) from None


def as_frame(table: Any, wanted: Callable[[str], bool] = lambda _: True) -> pl.DataFrame:
    """Convert a table to a polars data frame.

    Columns that are not wanted may have any content; their values become null.
    """
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        table = _by_position(table, wanted)
    elif hasattr(table, "__arrow_c_stream__"):  # Arrow tables, DuckDB and others
        return pl.DataFrame(table)
    elif not isinstance(table, Mapping) and is_table(table):
        table = table_columns(table)
    if not isinstance(table, Mapping):
        raise InvalidInput(
            "a table must be a data frame of polars, pandas or Arrow, a list of dicts, or a dict of columns; got "
            f"{type(table).__name__}"
        )
    columns = {str(name): _column(str(name), values, wanted(str(name))) for name, values in table.items()}
    try:
        return pl.DataFrame(columns)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InvalidInput(f"the columns could not be combined into a table: {error}") from None


def _by_position(frame: Any, wanted: Callable[[str], bool]) -> dict[str, Any]:
    """The columns of a pandas frame.

    Raises InvalidInput if a wanted column has a duplicate name.
    """
    names = [str(name) for name in frame.columns]
    for name, times in Counter(names).items():
        if times > 1 and wanted(name):
            raise InvalidInput(f"the table has {times} columns {name!r}. Drop or rename all but one of them")
    return {name: frame.iloc[:, index] for index, name in enumerate(names)}


def _column(name: str, values: Any, wanted: bool) -> Any:
    """Convert values so that polars does not have to guess their type."""
    if not wanted:
        sized = hasattr(values, "__len__") and not isinstance(values, str)
        return pl.repeat(None, len(values), eager=True) if sized else None
    numeric = isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind in "biuf"
    if hasattr(values, "isna"):  # pandas, which has several kinds of missing values
        if numeric:
            return values.to_numpy()
        missing = values.isna().tolist()
        return _make_column(name, [None if no else value for value, no in zip(values.tolist(), missing, strict=True)])
    if isinstance(values, np.ndarray) and not numeric:
        values = values.tolist()
    return _make_column(name, values) if isinstance(values, list | tuple | range) else values


def _make_column(name: str, values: Iterable[Any]) -> pl.Series:
    """Return a column of numbers, text, or (nested) lists or arrays of them."""
    plain = _with_lists(list(values))
    types = _type_names(plain)
    if types == {"numbers", "text"} and not any(isinstance(value, list) for value in plain):
        plain, types = list(map(as_category, plain)), {"text"}  # the feature map interprets the text
    if len(types) > 1:
        raise InvalidInput(
            f"column {name!r} must have values of one type; got {' and '.join(sorted(types))}. Convert all of them to "
            "numbers, or all to text"
        )
    try:
        # strict=True rejects 0 before 1.5, and reads [1.5] after [0] as [1].
        return pl.Series(name, plain, strict=False)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"column {name!r} could not be read: {error}") from None


def _with_lists(values: list[Any]) -> list[Any]:
    """Convert arrays and tuples to lists, recursively."""
    if not any(issubclass(kind, list | tuple | np.ndarray) for kind in set(map(type, values))):
        return values
    lists = (value.tolist() if isinstance(value, np.ndarray) else value for value in values)
    return [_with_lists(list(value)) if isinstance(value, list | tuple) else value for value in lists]


def _type_names(values: list[Any]) -> set[str]:
    """Types of the values that are not None, as words; of the elements if all values are lists."""
    types = {_type_name(kind) for kind in set(map(type, values)) - {NoneType}}
    if types != {"lists"}:
        return types
    return _type_names(list(chain.from_iterable(value for value in values if value is not None)))


def _type_name(kind: type) -> str:
    if issubclass(kind, Number | np.bool_):
        return "numbers"
    return "text" if issubclass(kind, str) else "lists" if issubclass(kind, list) else kind.__name__
