"""Tables in files as logs: Parquet and CSV, streamed."""

from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation.columns import Columns
from glbandits.evaluation.tables import TableLog
from glbandits.maths.links import Link

Source: TypeAlias = str | PathLike[str]


def read_parquet(
    source: Source,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    cross: bool = True,
) -> TableLog:
    """A log in a Parquet file, a folder of them, or all files that match a pattern such as "logs/2025-*.parquet".

    It may be larger than memory. The arguments are those of `read_table`.
    """
    table = pl.scan_parquet(files_of(source, "parquet"))
    return TableLog(table, columns, arm_table=arm_table, arm_id=arm_id, link=link, cross=cross)


def read_csv(
    source: Source,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    cross: bool = True,
) -> TableLog:
    """A log in a CSV file with a line of names, or all files that match a pattern such as "logs/2025-*.csv".

    It may be larger than memory, but is slower than Parquet: it is read once to find out which columns hold numbers,
    and again for the names of arms. CSV has no lists: `arms` and `features` need Parquet. The arguments are those of
    `read_table`.
    """
    return TableLog(scan_csv(source, columns), columns, arm_table=arm_table, arm_id=arm_id, link=link, cross=cross)


def scan_csv(source: Source, columns: Columns) -> pl.LazyFrame:
    """The lines of CSV files, to be read later. Names of arms are kept as they are written, 01 as 01."""
    files = files_of(source, "csv")
    try:
        found = pl.scan_csv(files, infer_schema_length=None).collect_schema()
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{source} could not be read as CSV: {error}") from None
    kinds: dict[str, pl.DataType] = dict(found)
    kinds.update({name: pl.String() for name in (columns.arm, columns.cluster) if name is not None and name in found})
    return pl.scan_csv(files, schema=kinds)


def files_of(source: Source, ending: str) -> list[Path]:
    """The file, or the files of this ending in the folder, or those that match the pattern: in order of their names."""
    path = Path(source)
    if path.is_file():
        return [path]
    root, pattern = (path, f"**/*.{ending}") if path.is_dir() else (Path(path.anchor), str(path)[len(path.anchor) :])
    found = sorted(root.glob(pattern)) if pattern else []
    if not found:
        raise InvalidInput(f"{source} is no file, no folder with files *.{ending}, and no pattern that matches a file")
    return found
