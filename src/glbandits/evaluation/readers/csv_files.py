"""Read CSV files as tables, after checks of encoding, header, and the number of fields of each row."""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.readers.columns import Columns, concat_files
from glbandits.features.kinds.column_kind import MISSING_TEXTS
from glbandits.features.kinds.numeric import Number

SEPARATORS = (",", ";", "\t", "|")
QUOTED = re.compile(r'"[^"]*"')
GZIP = b"\x1f\x8b"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
UTF_8_SIGNATURE = b"\xef\xbb\xbf"
LEADING_ZERO = r"^\s*0\d+\s*$"
"""Digits that may be a code, such as the postal code 01067."""


def declared_texts(options: Mapping[str, Any]) -> list[str]:
    """The columns whose declared kind needs the text of a CSV file.

    "1.234" is 1234 with decimal commas, and "12" is an error in a column of percentages.
    """
    kinds = {**getattr(options.get("features"), "kinds", {}), **options.get("kinds", {})}
    return [
        name
        for name, kind in kinds.items()
        if kind == "decimal_comma" or (isinstance(kind, Number) and (kind.decimal_comma or kind.percent))
    ]


def scan_csv(files: list[Path], columns: Columns, texts: Collection[str] = ()) -> pl.LazyFrame:
    """Return a lazy frame of CSV files.

    Names of arms stay text, so that 01 stays 01. So do the columns `texts`, context columns with leading zeros,
    and columns with text in one of the files.
    """
    schemas, separators, as_text = {}, {}, set(texts)
    for file in files:
        separator = separators[file] = check_csv(file)
        try:
            _check_names(file, columns)
            schemas[file] = _column_types(file, columns, separator)
            as_text.update(name for name, kind in schemas[file].items() if kind == pl.String)
            as_text.update(_columns_with_leading_zeros(file, schemas[file], columns.context, separator))
        except pl.exceptions.PolarsError as error:
            raise _csv_error(file, error) from None
    for schema in schemas.values():
        schema.update({name: pl.String() for name in schema if name in as_text})
    # The types come from all values, so the only texts in a column of numbers are those of MISSING_TEXTS, which become
    # null. In a column of text they stay text, because NA may be Namibia.
    tables = {
        file: pl.scan_csv(file, schema=schema, ignore_errors=True, separator=separators[file])
        for file, schema in schemas.items()
    }
    return tables[files[0]] if len(files) == 1 else concat_files(tables, columns)


def _column_types(file: Path, columns: Columns, separator: str) -> dict[str, pl.DataType]:
    """The types of the columns, inferred from all values."""
    nulls = sorted(MISSING_TEXTS)
    schema = pl.scan_csv(file, infer_schema_length=None, null_values=nulls, separator=separator).collect_schema()
    names = (columns.arm, columns.cluster)
    return {name: pl.String() if name in names else kind for name, kind in schema.items()}


def _check_names(file: Path, columns: Columns) -> None:
    """Raise InvalidInput for duplicate names of columns that are read.

    Polars would rename one of them.
    """
    for name, times in Counter(header_of(file)).items():
        if times > 1 and columns.reads(name):
            raise InvalidInput(f"{file.name} has {times} columns {name!r}. Drop or rename all but one of them")


def read_csv_frame(file: Path, texts: Collection[str] | None = ()) -> pl.DataFrame:
    """Read a small CSV file. The columns `texts` (None: all) stay text, and so do columns with leading zeros."""
    separator = check_csv(file)
    if texts is None:
        return pl.read_csv(file, infer_schema=False, separator=separator)
    types = pl.scan_csv(file, infer_schema_length=None, separator=separator).collect_schema()
    as_text = [*texts, *_columns_with_leading_zeros(file, types, types, separator)]
    overrides = {name: pl.String() for name in as_text if name in types}
    return pl.read_csv(file, infer_schema_length=None, separator=separator, schema_overrides=overrides)


def header_of(file: Path) -> list[str]:
    """Return the names of the columns of a CSV file, with repetitions."""
    with _readable(file), _open(file) as lines:
        separator = separator_of(_header_text(file, lines.readline()))
        names = pl.read_csv(file, has_header=False, n_rows=1, infer_schema=False, separator=separator).row(0)
    return list(filter(None, names))


def check_csv(file: Path) -> str:
    """Read a CSV file once, and return its separator. Raises InvalidInput if the reader cannot read its format.

    It must be in UTF-8, have the same number of fields in every row, and not repeat its header. It may be compressed by
    gzip.
    """
    with _readable(file):
        with _open(file) as lines:
            header = lines.readline()
            separator = separator_of(_header_text(file, header))
            count, header_text = header.count(separator.encode()), _stripped(header)
            # A fast check that is enough for files without separators or line breaks inside of quotes.
            if header.count(b'"') % 2 == 0 and all(
                (line.count(separator.encode()) == count and _stripped(line) != header_text) or not line.strip()
                for line in lines
            ):
                return separator
        _check_fields(file, separator)
        return separator


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Raise InvalidInput if the file is not in UTF-8, or damaged."""
    try:
        yield
    except UnicodeDecodeError:
        raise _not_utf_8(file) from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise _csv_error(file, error) from None


def _open(file: Path) -> IO[bytes]:
    with file.open("rb") as start:
        is_compressed = start.read(2) == GZIP
    return cast("IO[bytes]", gzip.open(file, "rb")) if is_compressed else file.open("rb")


def _stripped(line: bytes) -> bytes:
    return line.removeprefix(UTF_8_SIGNATURE).strip()


def separator_of(header: str) -> str:
    """Return the separator of the fields of a header: the one of SEPARATORS that is most frequent outside of quotes.

    >>> separator_of('arm;"price, in EUR";reward'), separator_of("arm")
    (';', ',')
    """
    return max(SEPARATORS, key=QUOTED.sub("", header).count)


def _header_text(file: Path, header: bytes) -> str:
    if header.startswith(UTF_16) or b"\0" in header:
        raise InvalidInput(
            f"{file.name} must be encoded in UTF-8; it seems to be UTF-16. Convert it: "
            f"iconv -f UTF-16 -t UTF-8 {file.name} > NEW_FILE"
        )
    text = header.removeprefix(UTF_8_SIGNATURE).decode()
    if text.lower().startswith("sep="):
        raise InvalidInput(
            f"{file.name} begins with the line {text.strip()!r}, which only Excel understands. Delete this line"
        )
    return text


def _check_fields(file: Path, separator: str) -> None:
    """Parse all rows, because fields with quotes may contain separators and line breaks."""
    with _open(file) as raw:
        rows = csv.reader((line.removeprefix(UTF_8_SIGNATURE).decode() for line in raw), delimiter=separator)
        try:
            header = next(rows)
            expected = len(header)
            number = -1
            for row in rows:
                if not row:  # an empty line
                    continue
                number += 1
                if len(row) != expected:
                    raise InvalidInput(
                        f"{file.name}, row {number} (line {rows.line_num}): each row must have {expected} fields, as "
                        f"the header has; got {len(row)}. Complete or drop the row, or close its quotes"
                    )
                if row == header:
                    raise InvalidInput(
                        f"{file.name}: row {number} (line {rows.line_num}) repeats the header; remove it"
                    )
        except csv.Error as error:
            raise InvalidInput(
                f"{file.name}, line {rows.line_num}: {error}. Check the quotes before this line"
            ) from None


def _not_utf_8(file: Path) -> InvalidInput:
    return InvalidInput(
        f"{file.name} must be encoded in UTF-8; it is not. Convert it, such as from Latin-1: "
        f"iconv -f ISO-8859-1 -t UTF-8 {file.name} > NEW_FILE"
    )


def _csv_error(file: Path, error: Exception) -> InvalidInput:
    """The error for a CSV file that polars cannot read."""
    if "utf-8" in str(error).lower():
        return _not_utf_8(file)
    return InvalidInput(f"{file} could not be read as CSV: {error}")


def _columns_with_leading_zeros(
    file: Path, types: Mapping[str, pl.DataType], names: Iterable[str], separator: str
) -> list[str]:
    """Those of the named columns that have a numeric type, but also values such as 00015, which may be codes."""
    numeric = [name for name in names if name in types and types[name].is_numeric()]
    if not numeric:
        return []
    texts = pl.scan_csv(file, infer_schema=False, separator=separator)
    has_zeros = texts.select(pl.col(numeric).str.contains(LEADING_ZERO).any()).collect(engine="streaming")
    return [name for name in numeric if has_zeros[name].item()]
