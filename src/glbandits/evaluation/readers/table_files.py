"""Read logs from Parquet, CSV and JSON-lines files, which are streamed."""

from os import PathLike
from pathlib import Path
from typing import TypeAlias, Unpack

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.columns import Columns, check_columns, concat_files
from glbandits.evaluation.readers.csv_files import declared_texts, scan_csv
from glbandits.evaluation.readers.table_layout import LogOptions
from glbandits.evaluation.readers.table_log import TableLog, convert_polars_errors, read_arm_table

Source: TypeAlias = str | PathLike[str]
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78")
"""First bytes of gzip, zstd and zlib files, which polars reads."""


def read_parquet(source: Source, columns: Columns, **options: Unpack[LogOptions]) -> TableLog:
    """Read a log from a Parquet file, a folder of files, or a pattern such as logs/*.parquet.

    The log may be larger than memory. Files may differ in columns that are not read, and some may have integers where
    others have floats. Names of folders, as in day=2025-01-31/part-0.parquet, become columns (Hive partitioning). The
    arguments are those of `read_table`.
    """
    return TableLog(scan_parquet(source, check_columns(columns)), columns, random_access=True, **options)


def read_csv(source: Source, columns: Columns, *, separator: str = ",", **options: Unpack[LogOptions]) -> TableLog:
    """Read a log from a CSV file with a header, or from a pattern such as logs/2025-*.csv.

    The log may be larger than memory. CSV is slower than Parquet: one pass determines the types of the columns, a
    second one the names of the arms. Files may be compressed, .csv.gz. NA, null and similar texts are missing values
    in a column of numbers, and text in other columns. A field cannot be a list of lists or a struct: `arms` and
    `features` need Parquet, and `probabilities` needs a column for each arm. A context column of kind "list" is a text
    such as "new|red". The arguments are those of `read_table`, and `separator`, the character between two fields, also
    of an `arm_table` that is a CSV file.

    Raises:
        InvalidInput: if a file is not in UTF-8, has another separator, repeats its header, or has a row with too many
            or too few fields.
    """
    texts = declared_texts(options)
    table = scan_csv(files_of(source, "csv", "csv.gz"), check_columns(columns), separator, texts)
    if isinstance(options.get("arm_table"), str | PathLike):
        options["arm_table"] = read_arm_table(options["arm_table"], separator, texts)
    return TableLog(table, columns, **options)


def read_json_lines(source: Source, columns: Columns, **options: Unpack[LogOptions]) -> TableLog:
    """Read a log from a file with one JSON object per line, or a pattern such as logs/*.jsonl.

    The log may be larger than memory. A column "user.age" is the field age of the object user. The arguments are those
    of `read_table`.
    """
    return TableLog(scan_json_lines(source, check_columns(columns)), columns, **options)


def scan_json_lines(source: Source, columns: Columns) -> pl.LazyFrame:
    """Return a lazy frame of files with one JSON object per line."""
    files = files_of(source, "jsonl", "ndjson", "json")
    for file in files:
        _check_start(file)
    with convert_polars_errors():
        table = pl.scan_ndjson(files, infer_schema_length=None)
        names = table.collect_schema().names()
        nested = [name for name in columns.single if "." in name and name not in names]
        table = table.with_columns([_nested_field(name).alias(name) for name in nested])
        table.collect_schema()
    return table


def _check_start(file: Path) -> None:
    with file.open("rb") as content:
        start = content.read(1024).lstrip()
    if start.startswith(b"["):
        raise InvalidInput(f"{file.name} contains a JSON array; write one object per line")
    if not start.startswith((b"{", *COMPRESSED)):
        raise InvalidInput(f"{file.name} must have one JSON object per line, as UTF-8; it starts with {start[:20]!r}")


def _nested_field(path: str) -> pl.Expr:
    outer, *inner = path.split(".")
    value = pl.col(outer)
    for name in inner:
        value = value.struct.field(name)
    return value


def scan_parquet(source: Source, columns: Columns) -> pl.LazyFrame:
    """Return a lazy frame of Parquet files."""
    files = files_of(source, "parquet")
    hive = not Path(source).is_file() and all("=" in str(file.parent) for file in files)
    with convert_polars_errors():
        schema, *others = map(pl.read_parquet_schema, files)
        if all(other == schema for other in others):
            return pl.scan_parquet(files, hive_partitioning=hive)
        return concat_files({file: pl.scan_parquet(file, hive_partitioning=hive) for file in files}, columns)


def files_of(source: Source, *suffixes: str) -> list[Path]:
    """Return the files of a source, sorted.

    The source is a file, a folder or a pattern. Of a folder, the files with these suffixes are returned. Paths are
    absolute, so that worker processes can open them.
    """
    path = Path(source).absolute()
    if path.is_file():
        return [path]
    if path.is_dir():
        files = sorted(file for suffix in suffixes for file in path.rglob(f"*.{suffix}"))
    else:
        pattern = str(path)[len(path.anchor) :]
        files = sorted(Path(path.anchor).glob(pattern)) if pattern else []
    if not files:
        wanted = " or ".join(f"*.{suffix}" for suffix in suffixes)
        raise InvalidInput(
            f"{source} must be a file, a folder with files {wanted}, or a pattern that matches files; got none of them"
        )
    return files
