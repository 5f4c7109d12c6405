"""Read logs from Parquet, CSV and JSON-lines files, which are streamed."""

import re
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TypeAlias, Unpack

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.columns import Columns, check_columns, concat_files
from glbandits.evaluation.readers.csv_files import declared_texts, scan_csv, separator_of
from glbandits.evaluation.readers.frames import convert_polars_errors, read_arm_table
from glbandits.evaluation.readers.table_inspection import TableOptions
from glbandits.evaluation.readers.table_log import TableLog, open_table

REMOTE = re.compile(r"(s3a?|gs|gcs|az|azure|abfss?|adl|hf|https?)://")
"""Addresses that polars reads."""
Source: TypeAlias = str | PathLike[str]
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78")
"""First bytes of gzip, zstd and zlib files, which polars reads."""


def read_parquet(source: Source, columns: Columns, **options: Unpack[TableOptions]) -> TableLog:
    """Read a log from a Parquet file, a folder of files, or a pattern such as logs/*.parquet.

    The log may be larger than memory. Files may differ in columns that are not read, and some may have integers where
    others have floats. Names of folders, as in day=2025-01-31/part-0.parquet, become columns (Hive partitioning). The
    arguments are those of `read_table`.
    """
    return open_table(scan_parquet(source, check_columns(columns)), columns, random_access=True, **options)


def read_csv(source: Source, columns: Columns, **options: Unpack[TableOptions]) -> TableLog:
    """Read a log from a CSV file with a header, or from a pattern such as logs/2025-*.csv.

    The log may be larger than memory. CSV is slower than Parquet: one pass determines the types of the columns, a
    second one the names of the arms. Files may be compressed, .csv.gz. NA, null and similar texts are missing values
    in a column of numbers, and text in other columns. A field cannot be a list of lists or a struct: `arms` and
    `features` need Parquet, and `probabilities` needs a column for each arm. A context column of kind "list" is a text
    such as "new|red". Fields are separated by commas, semicolons, tabs or vertical bars, whichever is most frequent in
    the header. The arguments are those of `read_table`.

    Raises:
        InvalidInput: if a file is not in UTF-8, repeats its header, or has a row with too many
            or too few fields.
    """
    texts = declared_texts(options)
    table = scan_csv(files_of(source, "csv", "csv.gz", "tsv"), check_columns(columns), texts)
    if isinstance(options.get("arm_table"), str | PathLike):
        options["arm_table"] = read_arm_table(options["arm_table"], texts)
    return open_table(table, columns, **options)


def read_json_lines(source: Source, columns: Columns, **options: Unpack[TableOptions]) -> TableLog:
    """Read a log from a file with one JSON object per line, or a pattern such as logs/*.jsonl.

    The log may be larger than memory. A column "user.age" is the field age of the object user. The arguments are those
    of `read_table`.
    """
    return open_table(scan_json_lines(source, check_columns(columns)), columns, **options)


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


def is_remote(source: object) -> bool:
    """Whether a source is an address, such as s3://bucket/log.parquet, which polars reads."""
    return REMOTE.match(str(source)) is not None


def scan_remote(address: str, format: str = "auto") -> pl.LazyFrame:  # noqa: A002  (as in `open_log`)
    """Return a lazy frame of an address, which goes to polars unchanged.

    Polars takes credentials from the environment, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL. An address that ends
    with "/" is a folder of Parquet files, whose names of folders become columns.
    """
    with convert_polars_errors():
        try:
            table = _scan_address(address, format)
            table.collect_schema()
        except OSError as error:
            reason = str(error).partition(": Error performing")[0]
            raise InvalidInput(f"{address} could not be read: {reason}") from None
        return table


def _scan_address(address: str, format: str) -> pl.LazyFrame:  # noqa: A002
    path = address.partition("?")[0]
    is_csv, is_json = path.endswith((".csv", ".csv.gz", ".tsv")), path.endswith((".json", ".jsonl", ".ndjson"))
    if format == "csv" or (format == "auto" and is_csv):
        header = pl.scan_csv(address, has_header=False, n_rows=1, separator="\x1f", quote_char=None).collect()
        return pl.scan_csv(address, separator=separator_of(str(header.item())), infer_schema_length=None)
    if format == "json-lines" or (format == "auto" and is_json):
        return pl.scan_ndjson(address, infer_schema_length=None)
    if format not in ("auto", "parquet"):
        raise InvalidInput(f"{address} must be Parquet, CSV or JSON lines; got format {format!r}. Download it")
    return pl.scan_parquet(address, hive_partitioning=True if path.endswith("/") else None)


def open_remote(
    address: str,
    columns: Columns,
    *,
    format: str,  # noqa: A002  (as in `open_log`)
    **options: Unpack[TableOptions],
) -> TableLog:
    """Open a log at an address. The other arguments are those of `open_log`."""
    table = scan_remote(address, format)
    is_text = format in ("csv", "json-lines") or (".parquet" not in address and not address.endswith("/"))
    return open_table(table, columns, random_access=not is_text, **options)


def with_content(log: TableLog, source: Path) -> TableLog:
    """Return a log that knows the size and the time of change of its files, so that an evaluation can be resumed."""
    files = sorted(file for file in source.rglob("*") if file.is_file()) if source.is_dir() else [source]
    stats = [(str(file), file.stat()) for file in files if file.is_file()]
    content = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    log.schema = replace(log.schema, content=content)
    return log


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
