"""Tables in memory as logs, and what is shared with tables in files: reading them a block of rows at a time."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.column_values import column_of
from glbandits.evaluation.logs.columns import Columns, check_columns
from glbandits.evaluation.logs.log_features import LogOptions
from glbandits.evaluation.logs.logged_data import BLOCK, LoggedData, rows_together
from glbandits.evaluation.logs.table_layout import look_at, prepared
from glbandits.evaluation.logs.table_rows import read_rows
from glbandits.features import Features
from glbandits.features.table_columns import is_table, table_columns
from glbandits.maths.links import Link

SPARSE_FEATURES = 256
"""Features of a sparse row that are counted when the rows of a block are chosen."""
READ_AHEAD = 4
"""Blocks of a Parquet file that polars may decode before they are wanted; by itself it holds a dozen row groups."""


class TableLog:
    """A log in a file, which is read again, a block of rows at a time, whenever its rows are wanted.

    It holds the names of the arms and the feature map, and no rows. A value that cannot be used is
    found when its block is read. If the file changes meanwhile, open it again.
    """

    def __init__(
        self,
        table: pl.LazyFrame,
        columns: Columns,
        *,
        arm_table: Any = None,
        arm_id: str | None = None,
        link: str | Link = "identity",
        random_access: bool = False,
        **options: Unpack[LogOptions],
    ) -> None:
        arms = None if arm_table is None else read_arm_table(arm_table)
        with explained():
            columns = check_columns(columns).found_in(table.collect_schema().names())
            table = prepared(table, columns)
            self._layout = look_at(table, columns, arm_table=arms, arm_id=arm_id, link=link, options=options)
        self._table, self._random_access = table.select(self._layout.wanted), random_access

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self._layout.dim

    @property
    def sparse(self) -> bool:
        """Whether the arms are sparse rows."""
        return self._layout.sparse

    @property
    def feature_map(self) -> Features | None:
        """What makes features of the columns; None if each row brings all features of its arms."""
        return self._layout.feature_map

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms, where all rows have the same."""
        return self._layout.arm_names if self._layout.fixed else None

    def __len__(self) -> int:
        return self._layout.rows

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """All rows in order, in blocks of at most so many."""
        size, first = self._rows_together(size), 0
        with explained():
            for part in self._parts():
                for rows in part.collect_batches(chunk_size=size, maintain_order=True):
                    yield read_rows(rows, self._layout, first)
                    first += len(rows)

    def _parts(self) -> Iterator[pl.LazyFrame]:
        """The table in parts of a few blocks, if it can be read from any row: memory then holds one part at most."""
        if not self._random_access:
            yield self._table
            return
        step = READ_AHEAD * self._rows_together(BLOCK)
        for first in range(0, len(self), step):
            yield self._table.slice(first, step)

    def _rows_together(self, size: int) -> int:
        return rows_together(size, self._layout.most, SPARSE_FEATURES if self.sparse else self.dim)

    def read(self) -> LoggedData:
        """All rows at once, in memory."""
        with explained():
            return read_rows(self._table.collect(), self._layout)


@contextmanager
def explained() -> Iterator[None]:
    """Raise what polars says of a table that it cannot read as an error of ours."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"the table could not be read: {error}") from None


def read_table(
    frame: Any,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    **options: Unpack[LogOptions],
) -> LoggedData:
    """A log from a data frame of polars, pandas or Arrow, a list of dicts, or a dict of columns.

    >>> table = {"arm": ["a", "b", "b"], "reward": [0, 1, 0], "propensity": [0.5, 0.5, 0.5], "age": [3, 4, 5]}
    >>> log = read_table(table, Columns(context=("age",)))
    >>> log.arm_names, log.chosen.tolist(), log.dim
    (('a', 'b'), [0, 1, 1], 4)

    Args:
        frame: a row for each decision.
        columns: which column is what.
        arm_table: a table, or a CSV or Parquet file, with a row for each arm, for arms of which more is known than
            their names, or that were never chosen. The first column (or `arm_id`) holds the names, all others describe
            the arms. Without it, each arm has a block of features of its own.
        arm_id: the column of arm_table that holds the names.
        link: tells which rewards there can be.
        options: how columns become features (see `LogOptions` and `FeatureMap.learn`): `kinds`, `missing`, `crosses`,
            `per_arm_block`, `expansions`; or `features`, a map that exists already; and `sparse`.
    """
    table = as_frame(frame, check_columns(columns).reads).lazy()
    return TableLog(table, columns, arm_table=arm_table, arm_id=arm_id, link=link, **options).read()


def read_arm_table(table: Any) -> pl.DataFrame:
    """A table with a row for each arm, from a table or a CSV or Parquet file."""
    if not isinstance(table, str | PathLike):
        return as_frame(table)
    path = Path(table)
    if not path.is_file():
        raise InvalidInput(f"arm_table must be a Parquet or CSV file with a row for each arm; {path} is none")
    try:
        is_csv = path.name.endswith((".csv", ".csv.gz"))
        return pl.read_csv(path, infer_schema_length=None) if is_csv else pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"arm_table: {path} could not be read: {error}") from None


def as_frame(table: Any, wanted: Callable[[str], bool] = lambda _: True) -> pl.DataFrame:
    """A data frame of polars from one of pandas, or from a dict of columns, or as it is.

    Columns that are not wanted may hold anything: of those, only the names and lengths are kept.
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
        raise InvalidInput(f"the columns do not make a table: {error}") from None


def _by_position(frame: Any, wanted: Callable[[str], bool]) -> dict[str, Any]:
    """The columns of pandas, which may have the same name twice: an error if that one is wanted."""
    names = [str(name) for name in frame.columns]
    for name, times in Counter(names).items():
        if times > 1 and wanted(name):
            raise InvalidInput(f"column {name!r} is there {times} times. Drop or rename all but one of them")
    return {name: frame.iloc[:, place] for place, name in enumerate(names)}


def _column(name: str, values: Any, wanted: bool) -> Any:
    """What polars can make a column of without guessing."""
    if not wanted:
        sized = hasattr(values, "__len__") and not isinstance(values, str)
        return pl.repeat(None, len(values), eager=True) if sized else None
    numeric = isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind in "biuf"
    if hasattr(values, "isna"):  # of pandas, which has several ways to say that none is there
        if numeric:
            return values.to_numpy()
        gone = values.isna().tolist()
        return column_of(name, [None if no else value for value, no in zip(values.tolist(), gone, strict=True)])
    if isinstance(values, np.ndarray) and not numeric:
        values = values.tolist()
    return column_of(name, values) if isinstance(values, list | tuple | range) else values
