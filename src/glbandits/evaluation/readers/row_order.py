"""The order of the rows of a table by their time, and the check that each decision has one row."""

from pathlib import Path

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.column_values import is_number, is_text
from glbandits.evaluation.readers.columns import Columns
from glbandits.features.table_columns import check_present

ROW_GROUP = 65_536
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
