"""`TableLog`, a log in a table, and `read_table` for a table in memory."""

import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import copy_with
from glbandits.evaluation.logs.description import LogDescription
from glbandits.evaluation.logs.log_statistics import describe_blocks
from glbandits.evaluation.logs.logged_data import (
    BLOCK,
    LoggedData,
    StreamedLog,
    block_bounds,
    block_size,
)
from glbandits.evaluation.readers.columns import Columns, check_columns, prepare_table
from glbandits.evaluation.readers.csv_files import declared_texts
from glbandits.evaluation.readers.describe_table import describe_columns
from glbandits.evaluation.readers.frames import as_frame, convert_polars_errors, explain_row_numbers, read_arm_table
from glbandits.evaluation.readers.row_order import dates_of, newest_first, ordered_rows, without_copies
from glbandits.evaluation.readers.table_inspection import TableOptions, inspect_table
from glbandits.evaluation.readers.table_layout import TableLayout
from glbandits.evaluation.readers.table_rows import read_rows

SPARSE_FEATURES = 256
"""Assumed number of nonzero features of a sparse row, for the number of rows of a block."""
READ_AHEAD = 4
"""Number of blocks of a Parquet file that polars may decode at once. Without a limit it keeps a dozen row groups."""
ROW = "\0row"
"""The column with the index of a row in the log, while rows are selected."""


class TableLog(StreamedLog):
    """A log in a table that is read again for each iteration, one block of rows at a time.

    In memory are only the schema with the names of the arms and the feature map. Opening checks all columns except
    those of features, which are checked when they are read. Open the log again if its file has changed.

    Args:
        table: the columns that the layout reads.
        layout: how they are decoded.
        random_access: whether polars reads a part of the rows without the rows before it.
    """

    def __init__(self, table: pl.LazyFrame, layout: TableLayout, *, random_access: bool = False) -> None:
        self._table, self._layout, self._random_access = table, layout, random_access
        self.schema = layout.schema

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator[LoggedData]:
        """Yield rows in order, as `Log.blocks` says. Rows and columns that are not wanted are not decoded."""
        size, stop = self._block_size(size), len(self) if stop is None else min(stop, len(self))
        layout = self._layout if features else self._layout.without_features
        read = self._windows if self._random_access else self._batches
        with convert_polars_errors(), explain_row_numbers():
            for first, rows in read(self._table.select(layout.wanted), size, start, stop, every):
                yield read_rows(rows, layout, first)

    def _windows(
        self, table: pl.LazyFrame, size: int, start: int, stop: int, every: int
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """The first row of each block and its rows, from a few blocks at a time, which bounds the memory."""
        step = max(size, READ_AHEAD * self._block_size(BLOCK) // size * size)
        for first, last in block_bounds(step, start, stop):
            window = table.slice(first, last - first)
            if every > 1:
                window = window.with_row_index(ROW, first).filter(pl.col(ROW) % every == 0)
            rows = window.collect()
            if every == 1:
                for begin, end in block_bounds(size, first, last):
                    yield begin, rows[begin - first : end - first]
                continue
            numbers, rows = rows[ROW], rows.drop(ROW)
            for begin, end in block_bounds(size, first, last):
                yield begin, rows[int(numbers.search_sorted(begin)) : int(numbers.search_sorted(end))]

    def _batches(
        self, table: pl.LazyFrame, size: int, start: int, stop: int, every: int
    ) -> Iterator[tuple[int, pl.DataFrame]]:
        """As `_windows`, for a table that is read from its first row."""
        first = 0
        for rows in table.head(stop).collect_batches(chunk_size=size, maintain_order=True):
            if first + len(rows) > start:
                begin = max(first, start)
                yield begin, rows[begin - first :].gather_every(every, -begin % every)
            first += len(rows)

    def for_workers(self) -> "TableLog":
        """Return the log in a Parquet file, from which workers read their parts.

        The file is temporary, if the log is in another format, and is removed with the returned log.
        """
        if self._random_access:
            return self
        with ExitStack() as stack, convert_polars_errors():
            file = Path(stack.enter_context(TemporaryDirectory(prefix="glbandits-"))) / "log.parquet"
            self._table.select(self._layout.wanted).sink_parquet(file, row_group_size=BLOCK)
            log = TableLog(pl.scan_parquet(file), self._layout, random_access=True)
            weakref.finalize(log, stack.pop_all().close)
        return log

    def _block_size(self, size: int) -> int:
        schema = self.schema
        return block_size(size, schema.max_arms, SPARSE_FEATURES if schema.sparse else schema.dim)

    def describe(self) -> LogDescription:
        """Describe the log in one pass, and its columns from a sample of its rows. `print` shows tables."""
        kinds = getattr(self.feature_map, "kinds", {})
        if self._layout.pairs is not None:  # the format defines its columns
            return describe_blocks(self)
        with convert_polars_errors():
            columns = describe_columns(self._table, self._layout.columns, len(self), kinds)
        return describe_blocks(self, columns=columns, arm_column=self._layout.columns.arm)

    def read(self) -> LoggedData:
        """Read all rows into memory."""
        with convert_polars_errors(), explain_row_numbers():
            return read_rows(self._table.collect(), self._layout)


def open_table(
    table: pl.LazyFrame, columns: Columns, *, random_access: bool = False, **options: Unpack[TableOptions]
) -> TableLog:
    """Open a lazy frame as a log: check its columns, find its arms, and learn its feature map unless given.

    Args:
        table: a row for each decision.
        columns: the meaning of its columns.
        random_access: as in `TableLog`.
        options: as in `read_table`.
    """
    unknown = sorted(set(options) - TableOptions.__optional_keys__)
    if unknown:
        raise InvalidInput(
            f"{unknown[0]} does not apply to a table. Known options: "
            f"{', '.join(sorted(TableOptions.__optional_keys__))}",
            field=unknown[0],
        )
    arm_table = options.get("arm_table")
    arms = None if arm_table is None else read_arm_table(arm_table, texts=declared_texts(options))
    with ExitStack() as stack, convert_polars_errors(), explain_row_numbers():
        columns = check_columns(columns).without_absent_defaults(table.collect_schema().names())
        ordered, doubts = table, newest_first(table, columns)
        if columns.time is not None or columns.id is not None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="glbandits-")))
            once, notes = without_copies(table, columns, folder)
            ordered, doubts = ordered_rows(once, columns, folder), (*doubts, *notes)
        prepared = prepare_table(ordered, columns)
        layout = inspect_table(prepared, columns, arms, options)
        log = TableLog(prepared.select(layout.wanted), layout, random_access=random_access or ordered is not table)
        log.schema = replace(log.schema, doubts=doubts, dates=dates_of(ordered, columns))
        weakref.finalize(log, stack.pop_all().close)
    return log


def read_table(frame: Any, columns: Columns, **options: Unpack[TableOptions]) -> LoggedData:
    """Read a log from a polars, pandas or Arrow frame, a list of dicts, or a dict of columns.

    >>> table = {"arm": ["a", "b", "b"], "reward": [0, 1, 0], "propensity": [0.5, 0.5, 0.5], "age": [3, 4, 5]}
    >>> log = read_table(table, Columns(context=("age",)))
    >>> log.arm_names, log.chosen.tolist(), log.dim
    (('a', 'b'), [0, 1, 1], 4)

    Args:
        frame: one row for each decision.
        columns: the meaning of its columns.
        options: an arm table and how columns are encoded, see `TableOptions` and `FeatureMap.learn`: `arm_table`,
            `arm_id`, `link`, `kinds`, `missing`, `crosses`, `per_arm_block`, `expansions`; or `features`, an existing
            map; and `sparse`.
    """
    table = as_frame(frame, check_columns(columns).reads).lazy()
    log = open_table(table, columns, random_access=True, **options)
    schema = log.schema
    return copy_with(log.read(), doubts=schema.doubts, dates=schema.dates, link_inferred=schema.link_inferred)
