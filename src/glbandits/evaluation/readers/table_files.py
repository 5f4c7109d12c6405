"""Read logs from Parquet, CSV and JSON-lines files, which are streamed."""

from collections import Counter
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.columns import Columns, check_columns
from glbandits.evaluation.readers.csv_checks import check_csv, columns_with_leading_zeros, csv_error
from glbandits.evaluation.readers.log_features import LogOptions, declared_texts
from glbandits.evaluation.readers.table_log import TableLog, convert_polars_errors, read_arm_table
from glbandits.features.kinds.column_kind import MISSING_TEXTS
from glbandits.maths.links import Link

Source: TypeAlias = str | PathLike[str]
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78")
"""First bytes of gzip, zstd and zlib files, which polars reads."""


def read_parquet(
    source: Source,
    columns: Columns,
    *,
    arm_table: Any = None,
    arm_id: str | None = None,
    link: str | Link = "identity",
    **options: Unpack[LogOptions],
) -> TableLog:
    """Read a log from a Parquet file, a folder of files, or a pattern such as logs/*.parquet.

    The log may be larger than memory. Files may differ in columns that are not read, and some may have integers where
    others have floats. Names of folders, as in day=2025-01-31/part-0.parquet, become columns (Hive partitioning). The
    arguments are those of `read_table`.
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
    separator: str = ",",
    **options: Unpack[LogOptions],
) -> TableLog:
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
    table = scan_csv(source, check_columns(columns), separator, texts)
    if isinstance(arm_table, str | PathLike):
        arm_table = read_arm_table(arm_table, separator, texts)
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
    """Read a log from a file with one JSON object per line, or a pattern such as logs/*.jsonl.

    The log may be larger than memory. A column "user.age" is the field age of the object user. The arguments are those
    of `read_table`.
    """
    files = files_of(source, "jsonl", "ndjson", "json")
    for file in files:
        _check_start(file)
    with convert_polars_errors():
        table = pl.scan_ndjson(files, infer_schema_length=None)
        names = table.collect_schema().names()
        nested = [name for name in check_columns(columns).single if "." in name and name not in names]
        table = table.with_columns([_nested_field(name).alias(name) for name in nested])
        table.collect_schema()
    return TableLog(table, columns, arm_table=arm_table, arm_id=arm_id, link=link, **options)


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
        common = _common({file: pl.read_parquet_schema(file) for file in files}, columns)
        if common is None:
            return pl.scan_parquet(files, hive_partitioning=hive)
        tables = [pl.scan_parquet(file, hive_partitioning=hive) for file in files]
        return pl.concat([_as_common(table, common, columns) for table in tables], how="vertical_relaxed")


def _as_common(table: pl.LazyFrame, common: Mapping[str, pl.DataType], columns: Columns) -> pl.LazyFrame:
    """The columns of one file in the common order and types.

    Columns that are not read become null.
    """
    present = table.collect_schema().names()
    hive_columns = [name for name in present if name not in common]
    changed = [
        pl.col(name).cast(kind) if name in present and columns.reads(name) else pl.lit(None).alias(name)
        for name, kind in common.items()
    ]
    return table.select(*changed, *hive_columns)


def _common(schemas: Mapping[Path, Mapping[str, pl.DataType]], columns: Columns) -> dict[str, pl.DataType] | None:
    """Types that fit the columns of all files; None if all files have the same types."""
    (first, known), *others = schemas.items()
    if all(schema == known for _, schema in others):
        return None
    common = dict(known)
    for file, schema in others:
        missing = [name for name in columns.single if (name in schema) != (name in common)]
        if missing:
            has, lacks = (file, first) if missing[0] in schema else (first, file)
            raise InvalidInput(f"{lacks} has no column {missing[0]!r}, but {has} has one. Leave out such files")
        for name, kind in schema.items():
            wider = _wider(common.get(name, kind), kind) if columns.reads(name) else common.get(name, kind)
            if wider is None:
                raise InvalidInput(
                    f"column {name!r} has type {kind} in {file}, but {common[name]} in earlier files. Use one type in "
                    "all files"
                )
            common[name] = wider
    return common


def _wider(one: pl.DataType, other: pl.DataType) -> pl.DataType | None:
    """The type that fits the values of both; None if only one of them is a number or a list."""
    if one == other or other == pl.Null:
        return one
    if one == pl.Null:
        return other
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        inner = _wider(one.inner, other.inner)  # type: ignore[arg-type]  # an instance; polars declares also the class
        return None if inner is None else pl.List(inner)
    if one.is_integer() and other.is_integer():
        return pl.Int64()
    return pl.Float64() if one.is_numeric() and other.is_numeric() else None


def scan_csv(source: Source, columns: Columns, separator: str = ",", texts: Collection[str] = ()) -> pl.LazyFrame:
    """Return a lazy frame of CSV files.

    Names of arms stay text, so that 01 stays 01. So do the columns `texts`, and context columns with leading zeros.
    """
    files = files_of(source, "csv", "csv.gz")
    schemas, as_text = {}, set(texts)
    for file in files:
        check_csv(file, separator)
        try:
            _check_names(file, columns, separator)
            schemas[file] = _column_types(file, columns, separator)
            as_text.update(columns_with_leading_zeros(file, schemas[file], columns.context, separator))
        except pl.exceptions.PolarsError as error:
            raise csv_error(file, error) from None
    for schema in schemas.values():
        schema.update({name: pl.String() for name in schema if name in as_text})
    kinds = _common(schemas, columns) or schemas[files[0]]
    # The types come from all values, so the only texts in a column of numbers are those of MISSING_TEXTS, which become
    # null. In a column of text they stay text, because NA may be Namibia.
    return pl.scan_csv(files, schema=kinds, ignore_errors=True, separator=separator)


def _column_types(file: Path, columns: Columns, separator: str) -> dict[str, pl.DataType]:
    """The types of the columns, inferred from all values."""
    nulls = sorted(MISSING_TEXTS)
    schema = pl.scan_csv(file, infer_schema_length=None, null_values=nulls, separator=separator).collect_schema()
    names = (columns.arm, columns.cluster)
    return {name: pl.String() if name in names else kind for name, kind in schema.items()}


def _check_names(file: Path, columns: Columns, separator: str) -> None:
    """Raise InvalidInput for duplicate names of columns that are read.

    Polars would rename one of them.
    """
    names = pl.read_csv(file, has_header=False, n_rows=1, infer_schema=False, separator=separator).row(0)
    for name, times in Counter(names).items():
        if times > 1 and columns.reads(name):
            raise InvalidInput(f"{file.name} has {times} columns {name!r}. Drop or rename all but one of them")


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
