"""`TableLog`, a log streamed from a table, and `read_table` for a table in memory."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from numbers import Number
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any, Unpack

import numpy as np
import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.description import LogDescription
from glbandits.evaluation.logs.logged_data import BLOCK, DisplayedLog, LoggedData, block_size, describe_blocks
from glbandits.evaluation.readers.columns import Columns, check_columns, prepare_table
from glbandits.evaluation.readers.csv_files import declared_texts, read_csv_frame
from glbandits.evaluation.readers.describe_table import describe_columns
from glbandits.evaluation.readers.table_layout import LogOptions, inspect_table
from glbandits.evaluation.readers.table_rows import read_rows
from glbandits.features import Features
from glbandits.features.kinds.categorical import as_category
from glbandits.features.table_columns import is_table, table_columns

SPARSE_FEATURES = 256
"""Assumed number of nonzero features of a sparse row, for the number of rows of a block."""
ROW_NUMBER = re.compile(r", row \d+:")
READ_AHEAD = 4
"""Number of blocks of a Parquet file that polars may decode ahead. Without a limit it keeps a dozen row groups."""


class TableLog(DisplayedLog):
    """A log in a table that is read again for each iteration, one block of rows at a time.

    In memory are only the names of the arms and the feature map. Invalid rewards raise InvalidInput when the log is
    opened, other invalid values when their block is read. Open the log again if its file has changed.
    """

    def __init__(
        self, table: pl.LazyFrame, columns: Columns, *, random_access: bool = False, **options: Unpack[LogOptions]
    ) -> None:
        unknown = sorted(set(options) - LogOptions.__optional_keys__)
        if unknown:
            raise InvalidInput(
                f"{unknown[0]} does not apply to a table. Known options: "
                f"{', '.join(sorted(LogOptions.__optional_keys__))}",
                field=unknown[0],
            )
        arm_table = options.get("arm_table")
        arms = None if arm_table is None else read_arm_table(arm_table, texts=declared_texts(options))
        with convert_polars_errors(), explain_row_numbers():
            columns = check_columns(columns).without_absent_defaults(table.collect_schema().names())
            table = prepare_table(table, columns)
            self._layout = inspect_table(table, columns, arms, options)
        self._table, self._random_access = table.select(self._layout.wanted), random_access

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self._layout.dim

    @property
    def sparse(self) -> bool:
        """Whether the arms are `SparseArms`."""
        return self._layout.sparse

    @property
    def feature_map(self) -> Features | None:
        """The map from columns to features; None if the table has all features as numbers."""
        return self._layout.feature_map

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms; None if rows have different arms."""
        return self._layout.arm_names if self._layout.fixed else None

    def __len__(self) -> int:
        return self._layout.rows

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of at most `size` rows."""
        return (block for _, block in self.blocks_from(0, size))

    def blocks_from(self, start: int, size: int = BLOCK) -> Iterator[tuple[int, LoggedData]]:
        """Yield the blocks of `blocks` from the one with row `start` on, each with the index of its first row.

        Earlier rows are not decoded.
        """
        size = self._block_size(size)
        with convert_polars_errors(), explain_row_numbers():
            for first_row, part in self._parts(start):
                row = first_row
                for rows in part.collect_batches(chunk_size=size, maintain_order=True):
                    if row + len(rows) > start:
                        yield row, read_rows(rows, self._layout, row)
                    row += len(rows)

    def _parts(self, start: int) -> Iterator[tuple[int, pl.LazyFrame]]:
        """The table in parts of a few blocks, to bound the memory, if it has random access.

        Parts before row `start` are left out.
        """
        if not self._random_access:
            yield 0, self._table
            return
        step = READ_AHEAD * self._block_size(BLOCK)
        for first_row in range(start - start % step, len(self), step):
            yield first_row, self._table.slice(first_row, step)

    def _block_size(self, size: int) -> int:
        return block_size(size, self._layout.max_arms, SPARSE_FEATURES if self.sparse else self.dim)

    def describe(self) -> LogDescription:
        """Describe the log in one pass, and its columns from a sample of its rows. `print` shows tables."""
        kinds = getattr(self.feature_map, "kinds", {})
        with convert_polars_errors():
            columns = describe_columns(self._table, self._layout.columns, len(self), kinds)
        return describe_blocks(self, columns=columns, arm_column=self._layout.columns.arm)

    def read(self) -> LoggedData:
        """Read all rows into memory."""
        with convert_polars_errors(), explain_row_numbers():
            return read_rows(self._table.collect(), self._layout)


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


def read_table(frame: Any, columns: Columns, **options: Unpack[LogOptions]) -> LoggedData:
    """Read a log from a polars, pandas or Arrow frame, a list of dicts, or a dict of columns.

    >>> table = {"arm": ["a", "b", "b"], "reward": [0, 1, 0], "propensity": [0.5, 0.5, 0.5], "age": [3, 4, 5]}
    >>> log = read_table(table, Columns(context=("age",)))
    >>> log.arm_names, log.chosen.tolist(), log.dim
    (('a', 'b'), [0, 1, 1], 4)

    Args:
        frame: one row for each decision.
        columns: the meaning of its columns.
        options: an arm table and how columns are encoded, see `LogOptions` and `FeatureMap.learn`: `arm_table`,
            `arm_id`, `link`, `kinds`, `missing`, `crosses`, `per_arm_block`, `expansions`; or `features`, an existing
            map; and `sparse`.
    """
    table = as_frame(frame, check_columns(columns).reads).lazy()
    return TableLog(table, columns, **options).read()


def read_arm_table(
    table: Any, separator: str = ",", texts: Collection[str] | None = (), *, name: str = "arm_table"
) -> pl.DataFrame:
    """Return a table with a row for each arm as a data frame, from a table or from a CSV or Parquet file.

    Args:
        table: the table, or the path of a file.
        separator: the character between two fields of a CSV file.
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
        if path.name.endswith((".csv", ".csv.gz")):
            return read_csv_frame(path, separator, texts)
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
