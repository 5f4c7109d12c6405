"""The order of the rows of a table by their time, and the check that each decision has one row."""

import re
from pathlib import Path

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind, Withheld
from glbandits.evaluation.logs.schema import Dates
from glbandits.evaluation.readers.column_values import is_number, is_text
from glbandits.evaluation.readers.columns import Columns
from glbandits.features.table_columns import check_present

ROW_GROUP = 65_536
DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")
"""The start of a date or a time."""
LEAST_FALLS, MOST_RISES = 10, 0.01
"""The newest rows are first if times fall at least so often, and rise less than this share as often."""
OFFSET = r":.*(Z|[+-]\d\d:?\d\d)$"
"""The end of a time with an offset from UTC. A time without one is in UTC."""


def ordered_rows(table: pl.LazyFrame, columns: Columns, folder: Path) -> pl.LazyFrame:
    """Return the table in the order of its time. Raises InvalidInput if an id has two rows, or a time is missing.

    Args:
        table: the table.
        columns: the meaning of its columns.
        folder: for a sorted copy of a table that is not in order.
    """
    named = [name for name in (columns.time, columns.id) if name is not None]
    if not named:
        return table
    check_present(named, table.collect_schema().names(), field="columns")
    if columns.id is not None:
        _check_ids(table, columns.id)
    if columns.time is None:
        return table
    time = _as_time(table, columns.time)
    checks = table.select(time.alias("time")).with_row_index("row")
    in_order = (pl.col("time") >= pl.col("time").shift()).fill_null(True).all().alias("in_order")
    first_missing = pl.col("row").filter(pl.col("time").is_null()).min()
    missing, sorted_already = checks.select(first_missing, in_order).collect(engine="streaming").row(0)
    if missing is not None:
        value = table.select(columns.time).slice(missing, 1).collect().item()
        raise InvalidInput(
            f"column {columns.time!r}, row {missing}: must be a number, a date or a time such as 2025-01-31T12:00:00; "
            f"got {value!r}. Correct it, or drop the row",
            field="Columns.time",
        )
    if sorted_already:
        return table
    in_time = table.sort(time, maintain_order=True)
    file = folder / "sorted.parquet"
    in_time.sink_parquet(file, row_group_size=ROW_GROUP)
    return pl.scan_parquet(file)


def dates_of(table: pl.LazyFrame, columns: Columns) -> Dates:
    """Return the first row of each date of a table in the order of its time; none if times are numbers or absent."""
    if columns.time is None or is_number(table.collect_schema()[columns.time]):
        return ()
    date = _as_time(table, columns.time).cast(pl.Date).cast(pl.String)
    days = table.select(date.alias("date")).with_row_index("row").group_by("date").agg(pl.col("row").min())
    return tuple(days.select("row", "date").sort("row").collect(engine="streaming").rows())


def _as_time(table: pl.LazyFrame, name: str) -> pl.Expr:
    """The times as values that can be compared; null where they are none."""
    kind, column = table.collect_schema()[name], pl.col(name)
    if is_text(kind):
        text = column.cast(pl.String).str.strip_chars()
        with_offset = pl.when(text.str.contains(OFFSET)).then(text).otherwise(text + "Z")
        return pl.coalesce(
            with_offset.str.to_datetime(strict=False, time_unit="us", time_zone="UTC"),
            text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us", "UTC")),
        )
    if is_number(kind) or kind.is_temporal():
        return column.fill_nan(None) if kind.is_float() else column
    raise InvalidInput(f"column {name!r} must have times or numbers; got {kind}", field="Columns.time")


def without_copies(table: pl.LazyFrame, columns: Columns, folder: Path) -> tuple[pl.LazyFrame, tuple[Doubt, ...]]:
    """Return the table with exact copies of a decision only once, and the note about them.

    Rows are copies if they have the same id and the same values in all columns that are read.

    Args:
        table: the table.
        columns: the meaning of its columns.
        folder: for the table without copies.
    """
    if columns.id is None or columns.id not in (names := table.collect_schema().names()):
        return table, ()
    read = [name for name in names if columns.reads(name)]
    counts = table.select(pl.len().alias("rows"), pl.struct(read).n_unique().alias("rows once"))
    ids = table.select(pl.col(columns.id).n_unique())
    rows, once = counts.collect(engine="streaming").row(0)
    if once == rows or once != ids.collect(engine="streaming").item():
        return table, ()  # no copies; or rows of one id differ, which `ordered_rows` refuses
    file = folder / "once.parquet"
    table.unique(columns.id, keep="first", maintain_order=True).sink_parquet(file, row_group_size=ROW_GROUP)
    text = f"{rows - once:,} of {rows:,} rows are exact copies of others with the same {columns.id!r}. They count once"
    note = Doubt(kind=DoubtKind.COPIES, text=text, short="copies count once", withholds=Withheld.NOTHING)
    return pl.scan_parquet(file), (note,)


def newest_first(table: pl.LazyFrame, columns: Columns) -> tuple[Doubt, ...]:
    """Return the doubt that the newest rows are first, by a column of dates or times that nobody named."""
    if columns.time is not None:
        return ()
    schema = table.collect_schema()
    texts = [name for name, kind in schema.items() if is_text(kind)]
    first = table.select(texts).head(1).collect() if texts else pl.DataFrame()
    dates = {name for name in texts if len(first) and DATE.match(str(first[name].item() or ""))}
    named = [name for name, kind in schema.items() if kind.is_temporal() or name in dates]
    for name in named:
        time = _as_time(table, name)
        later, earlier = (time > time.shift()).sum(), (time < time.shift()).sum()
        rises, falls = table.select(rises=later, falls=earlier).collect(engine="streaming").row(0)
        if falls >= LEAST_FALLS and rises < MOST_RISES * falls:
            text = (
                f"the newest rows are first, by the column {name!r}, so that policies learn the newest rows and are "
                f"compared on the oldest. Name it: --time {name}, in Python Columns(time={name!r})"
            )
            return (Doubt(kind=DoubtKind.ORDER, text=text, short="the newest rows are first", withholds=Withheld.GAIN),)
    return ()


def _check_ids(table: pl.LazyFrame, name: str) -> None:
    ids = pl.col(name)
    rows, different, missing = (
        table.select(pl.len(), ids.n_unique().alias("different"), ids.null_count().alias("missing"))
        .collect(engine="streaming")
        .row(0)
    )
    if missing:
        raise InvalidInput(
            f"column {name!r} must identify each decision; {missing:,} rows have none", field="Columns.id"
        )
    if different < rows:
        twice = table.group_by(name).len().filter(pl.col("len") > 1).first().collect(engine="streaming")
        raise InvalidInput(
            f"column {name!r} must identify each decision, but {rows - different:,} of {rows:,} rows repeat an id, "
            f"such as {twice[name].item()!r}. Copies count as evidence: drop them",
            field="Columns.id",
        )
