"""Tables in memory as logs, and what is shared with tables in files: reading them a block of rows at a time."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation.columns import Columns
from glbandits.evaluation.layouts import look_at, prepared
from glbandits.evaluation.logged_data import BLOCK, LoggedData, rows_together
from glbandits.evaluation.table_rows import read_rows
from glbandits.maths.links import Link


class TableLog:
    """A log in a file, which is read again, a block of rows at a time, whenever its rows are wanted.

    It holds the names of the arms and the different texts of the context, and no rows. A value that cannot be used is
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
        cross: bool = True,
    ) -> None:
        arms = None if arm_table is None else as_frame(arm_table)
        with _explained():
            table = prepared(table, columns)
            self._layout = look_at(table, columns, arm_table=arms, arm_id=arm_id, link=link, cross=cross)
        self._table = table.select(self._layout.wanted)

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self._layout.dim

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms, where all rows have the same."""
        return self._layout.arm_names if self._layout.fixed else None

    def __len__(self) -> int:
        return self._layout.rows

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """All rows in order, in blocks of at most so many."""
        size, first = rows_together(size, self._layout.most, self.dim), 0
        with _explained():
            for rows in self._table.collect_batches(chunk_size=size, maintain_order=True):
                yield read_rows(rows, self._layout, first)
                first += len(rows)

    def read(self) -> LoggedData:
        """All rows at once, in memory."""
        with _explained():
            return read_rows(self._table.collect(), self._layout)


@contextmanager
def _explained() -> Iterator[None]:
    """What polars cannot read, as an error of ours."""
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
    cross: bool = True,
) -> LoggedData:
    """A log from a data frame of polars or pandas, or from a dict of columns.

    >>> table = {"arm": ["a", "b", "b"], "reward": [0, 1, 0], "propensity": [0.5, 0.5, 0.5], "age": [3, 4, 5]}
    >>> log = read_table(table, Columns(context=("age",)))
    >>> log.arm_names, log.chosen.tolist(), log.dim
    (('a', 'b'), [0, 1, 1], 4)

    Args:
        frame: a row for each decision.
        columns: which column is what.
        arm_table: a table with a row for each arm, for arms of which more is known than their names, or that were
            never chosen. The first column (or `arm_id`) holds the names, all others features: numbers, or text, which
            becomes a 0 or 1 for each different text. Without it, each arm is a feature.
        arm_id: the column of arm_table that holds the names.
        link: tells which rewards there can be.
        cross: whether the features of an arm are its own and the context's products with them, or its own and the
            context (see `CrossedArms`).
    """
    table = as_frame(frame).lazy()
    return TableLog(table, columns, arm_table=arm_table, arm_id=arm_id, link=link, cross=cross).read()


def as_frame(table: Any) -> pl.DataFrame:
    """A data frame of polars from one of pandas, or from a dict of columns, or as it is."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        table = {series.name: series for series in (_from_pandas(table[name]) for name in table.columns)}
    if not isinstance(table, Mapping):
        raise InvalidInput(
            f"a table must be a data frame of polars or pandas, or a dict of columns; got {type(table).__name__}"
        )
    try:
        return pl.DataFrame(dict(table))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise InvalidInput(f"the columns do not make a table: {error}") from None


def _from_pandas(series: Any) -> pl.Series:
    """Plain numbers as NumPy has them, all else value by value, with None where pandas says that none is there."""
    name = str(series.name)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":
        return pl.Series(name, series.to_numpy())
    values = [None if gone else value for value, gone in zip(series.tolist(), series.isna().tolist(), strict=True)]
    try:
        return pl.Series(name, values)
    except (pl.exceptions.PolarsError, TypeError):  # a column of anything, which may be none of those that are read
        return pl.Series(name, values, dtype=pl.Object)
