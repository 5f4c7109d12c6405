"""Tables in files as logs: Parquet and CSV, streamed."""

from collections import Counter
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import polars as pl

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.columns import Columns, check_columns
from glbandits.evaluation.logs.log_features import LogOptions
from glbandits.evaluation.logs.table_log import TableLog, explained
from glbandits.features.kinds.column_kind import MISSING_TEXTS
from glbandits.maths.links import Link

Source: TypeAlias = str | PathLike[str]


def read_parquet(
    source: Source,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    **options: Unpack[LogOptions],
) -> TableLog:
    """A log in a Parquet file, a folder of them, or all files that match a pattern such as "logs/2025-*.parquet".

    It may be larger than memory. Files may differ in columns that are not read, and hold whole numbers where others
    hold numbers. What the names of folders tell, as in day=2025-01-31/part-0.parquet, are columns too. The arguments
    are those of `read_table`.
    """
    return TableLog(
        scan_parquet(source, check_columns(columns)),
        columns,
        arm_table=arm_table,
        arm_id=arm_id,
        link=link,
        random_access=True,
        **options,
    )


def read_csv(
    source: Source,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    **options: Unpack[LogOptions],
) -> TableLog:
    """A log in a CSV file with a line of names, or all files that match a pattern such as "logs/2025-*.csv".

    It may be larger than memory, but is slower than Parquet: it is read once to find out which columns hold numbers,
    and again for the names of arms. Files may be packed, .csv.gz. Where all else in a column is a number, NA, null and
    the like are missing numbers; elsewhere they are text. CSV has no lists: `arms` and `features`
    need Parquet, and `probabilities` a column for each arm. The arguments are those of `read_table`.
    """
    table = scan_csv(source, check_columns(columns))
    return TableLog(table, columns, arm_table=arm_table, arm_id=arm_id, link=link, **options)


def read_json_lines(
    source: Source,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    **options: Unpack[LogOptions],
) -> TableLog:
    """A log in a file with a JSON object on each line, or all files that match a pattern such as "logs/*.jsonl".

    It may be larger than memory. A column such as "user.age" is a value within an object. The arguments are those of
    `read_table`.
    """
    with explained():
        table = pl.scan_ndjson(files_of(source, "jsonl", "ndjson", "json"), infer_schema_length=None)
        names = table.collect_schema().names()
        within = [name for name in check_columns(columns).single if "." in name and name not in names]
        table = table.with_columns([_value_within(name).alias(name) for name in within])
        table.collect_schema()
    return TableLog(table, columns, arm_table=arm_table, arm_id=arm_id, link=link, **options)


def _value_within(path: str) -> pl.Expr:
    outer, *inner = path.split(".")
    value = pl.col(outer)
    for name in inner:
        value = value.struct.field(name)
    return value


def scan_parquet(source: Source, columns: Columns) -> pl.LazyFrame:
    """The rows of Parquet files, to be read later."""
    files = files_of(source, "parquet")
    told_by_folders = not Path(source).is_file() and all("=" in str(file.parent) for file in files)
    with explained():
        common = _common({file: pl.read_parquet_schema(file) for file in files}, columns)
        if common is None:
            return pl.scan_parquet(files, hive_partitioning=told_by_folders)
        tables = [pl.scan_parquet(file, hive_partitioning=told_by_folders) for file in files]
        return pl.concat([_as_common(table, common, columns) for table in tables], how="vertical_relaxed")


def _as_common(table: pl.LazyFrame, common: Mapping[str, pl.DataType], columns: Columns) -> pl.LazyFrame:
    """The columns of one file, in the order and types of all. Of those that are not read, the names alone."""
    found = table.collect_schema().names()
    told_by_folders = [name for name in found if name not in common]
    changed = [
        pl.col(name).cast(kind) if name in found and columns.reads(name) else pl.lit(None).alias(name)
        for name, kind in common.items()
    ]
    return table.select(*changed, *told_by_folders)


def _common(schemas: Mapping[Path, Mapping[str, pl.DataType]], columns: Columns) -> dict[str, pl.DataType] | None:
    """Types that the columns of all files can be read as; None if they are the same in all."""
    (first, known), *others = schemas.items()
    if all(schema == known for _, schema in others):
        return None
    common = dict(known)
    for file, schema in others:
        missing = [name for name in columns.single if (name in schema) != (name in common)]
        if missing:
            has, lacks = (file, first) if missing[0] in schema else (first, file)
            raise InvalidInput(f"{lacks} has no column {missing[0]!r}, but {has} has. Leave out such files")
        for name, kind in schema.items():
            wider = _wider(common.get(name, kind), kind) if columns.reads(name) else common.get(name, kind)
            if wider is None:
                raise InvalidInput(
                    f"column {name!r} holds {kind} in {file}, but {common[name]} in the files before it. Write it in "
                    "the same way to all files"
                )
            common[name] = wider
    return common


def _wider(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    """The type that holds the values of both; None if one is a number, or a list, and the other is not."""
    if one == other or other == pl.Null:
        return one
    if one == pl.Null:
        return other
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        inner = _wider(one.inner, other.inner)  # type: ignore[arg-type]
        return None if inner is None else pl.List(inner)
    if one.is_integer() and other.is_integer():
        return pl.Int64()
    return pl.Float64() if one.is_numeric() and other.is_numeric() else None


def scan_csv(source: Source, columns: Columns) -> pl.LazyFrame:
    """The lines of CSV files, to be read later. Names of arms are kept as they are written, 01 as 01."""
    files = files_of(source, "csv", "csv.gz")
    try:
        for file in files:
            _check_names(file, columns)
        schemas = {file: _looked_at(file, columns) for file in files}
    except pl.exceptions.PolarsError as error:
        raise InvalidInput(f"{source} could not be read as CSV: {error}") from None
    kinds = _common(schemas, columns) or schemas[files[0]]
    # All values were looked at, so that the only ones of which no number can be made are those of MISSING_TEXTS: they
    # become none. In columns of text they stay as they are, because NA may be Namibia.
    return pl.scan_csv(files, schema=kinds, ignore_errors=True)


def _looked_at(file: Path, columns: Columns) -> dict[str, pl.DataType]:
    """The types of the columns, by all of their values."""
    found = pl.scan_csv(file, infer_schema_length=None, null_values=sorted(MISSING_TEXTS)).collect_schema()
    names = (columns.arm, columns.cluster)
    return {name: pl.String() if name in names else kind for name, kind in found.items()}


def _check_names(file: Path, columns: Columns) -> None:
    """An error if a column that is read has the name of another, which polars would change."""
    names = pl.read_csv(file, has_header=False, n_rows=1, infer_schema=False).row(0)
    for name, times in Counter(names).items():
        if times > 1 and columns.reads(name):
            raise InvalidInput(f"{file.name} has {times} columns {name!r}. Drop or rename all but one of them")


def files_of(source: Source, *endings: str) -> list[Path]:
    """The file, or the files of these endings in the folder, or those that match the pattern: in order of names.

    Paths are absolute, so that other processes can open them.
    """
    path = Path(source).absolute()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(file for ending in endings for file in path.rglob(f"*.{ending}"))
    else:
        pattern = str(path)[len(path.anchor) :]
        found = sorted(Path(path.anchor).glob(pattern)) if pattern else []
    if not found:
        wanted = " or ".join(f"*.{ending}" for ending in endings)
        raise InvalidInput(f"{source} is no file, no folder with files {wanted}, and no pattern that matches a file")
    return found
