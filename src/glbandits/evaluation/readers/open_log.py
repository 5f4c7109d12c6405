"""open_log: open a log from a data frame, a file or a folder. The only place that decides the format of a log."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from inspect import signature
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from glbandits.common.errors import InvalidInput, lookup
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.readers.columns import Columns, check_columns
from glbandits.evaluation.readers.csv_files import declared_texts, header_of, scan_csv
from glbandits.evaluation.readers.dsjson import is_dsjson, read_dsjson
from glbandits.evaluation.readers.frames import read_arm_table
from glbandits.evaluation.readers.open_bandit import is_open_bandit, read_open_bandit
from glbandits.evaluation.readers.payoff_table import add_payoffs
from glbandits.evaluation.readers.service_export import is_export, read_export
from glbandits.evaluation.readers.table_files import (
    files_of,
    is_remote,
    open_remote,
    read_csv,
    read_json_lines,
    read_parquet,
    scan_json_lines,
    scan_parquet,
    scan_remote,
    with_content,
)
from glbandits.evaluation.readers.table_log import TableLog, open_table, read_table

TABLES: Mapping[str, Callable[..., TableLog]] = MappingProxyType(
    {"parquet": read_parquet, "csv": read_csv, "json-lines": read_json_lines}
)
"""Readers of formats in which the user names the columns, by format."""
FIXED: Mapping[str, Callable[..., TableLog]] = MappingProxyType(
    {"export": read_export, "open-bandit": read_open_bandit, "dsjson": read_dsjson}
)
"""Readers of formats that define their columns and arms, by format."""
SUFFIXES = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz", ".tsv"),
    "dsjson": (".dsjson",),
    "json-lines": (".json", ".jsonl", ".ndjson"),
}
"""Suffixes of file names by format."""


def open_log(
    source: Any,
    columns: Columns | None = None,
    *,
    format: str = "auto",  # noqa: A002  (the name of the option of `glb`)
    payoffs: Any = None,
    **settings: Any,
) -> Log:
    """Open a log from a data frame, a file or a folder.

    | source | format | read by |
    |---|---|---|
    | a polars, pandas or Arrow data frame, a list of dicts, a dict of columns | | `read_table` |
    | a polars `LazyFrame`, which is streamed; an s3://, gs://, az://, hf:// or https:// address | | polars |
    | .parquet, a folder or a pattern of such files | parquet | `read_parquet` |
    | .csv, .csv.gz, .tsv, a folder or a pattern of such files | csv | `read_csv` |
    | a folder with item_context.csv | open-bandit | `read_open_bandit` |
    | a folder that `glb store export` wrote | export | `read_export` |
    | .dsjson; .json, .jsonl, .ndjson in dsjson format | dsjson | `read_dsjson` |
    | other .json, .jsonl, .ndjson with one object per line | json-lines | `read_json_lines` |

    >>> open_log("log.xlsx")
    Traceback (most recent call last):
    glbandits.common.errors.InvalidInput: log.xlsx must end with .parquet, .csv, .csv.gz, .tsv, .dsjson, ...

    Args:
        source: a table, or the path of a file or a folder.
        columns: the meaning of the columns; by default those of `Columns`. The formats open-bandit and dsjson have
            fixed columns. For an export of the service, only `cluster` can be set.
        format: the format of a file or a folder. "auto" recognises it.
        payoffs: a table, or the path of a CSV or Parquet file, with the columns arm, value and cost (optional). With
            it, policies maximise value * reward - cost, and estimates are in these units. False ignores the values
            and costs of an export of the service.
        settings: arguments of the function that reads the log, such as arm_table and link.
    """
    if payoffs is not None and payoffs is not False:
        log = open_log(source, columns, format=format, payoffs=False, **settings)
        return add_payoffs(log, payoffs)
    columns = Columns() if columns is None else check_columns(columns)
    if isinstance(source, pl.LazyFrame):
        return open_table(source, columns, **settings)
    if not isinstance(source, str | PathLike):
        return read_table(source, columns, **settings)
    if is_remote(source):
        return open_remote(str(source), columns, format=format, **settings)
    path = Path(source)
    name = lookup("format", format, {each: each for each in ("auto", *TABLES, *FIXED)})
    if name == "auto":
        name = _format_of(path, columns)
    if name == "export" and payoffs is False:
        settings["payoffs"] = False
    if name in FIXED:
        return with_content(FIXED[name](path, **fixed_settings(name, path, columns, settings)), path)
    if isinstance(settings.get("arm_table"), str | PathLike):
        settings["arm_table"] = read_arm_table(settings["arm_table"], declared_texts(settings))
    return with_content(TABLES[name](path, columns, **settings), path)


def scan_log(source: str | PathLike[str], columns: Columns, *, texts: Collection[str] = ()) -> pl.LazyFrame | None:
    """Return the table of a log, unchecked; None if the format of the log defines its columns.

    Args:
        source: the path of a file or a folder.
        columns: the meaning of the columns. If it names no context, all other columns may be context.
        texts: columns of CSV files that stay text.
    """
    if is_remote(source):
        return scan_remote(str(source))
    path = Path(source)
    name = _format_of(path, columns)
    if name == "csv":
        files = files_of(path, "csv", "csv.gz", "tsv")
        if not columns.context:
            names = header_of(files[0])
            others = dict.fromkeys(name for name in names if name not in columns.single and not columns.reads(name))
            columns = replace(columns, context=tuple(others))
        return scan_csv(files, columns, texts)
    return None if name in FIXED else (scan_parquet if name == "parquet" else scan_json_lines)(path, columns)


def has_lists_of_propensities(source: str | PathLike[str], columns: Columns) -> bool:
    """Whether the column of propensities has the probabilities of all arms, as a list or a struct in each row."""
    if columns.propensity is None or _format_of(Path(source), columns) not in ("parquet", "json-lines"):
        return False  # a field of a CSV file is no list
    table = scan_log(source, columns)
    return table is not None and table.collect_schema().get(columns.propensity, pl.Null()).is_nested()


def fixed_settings(name: str, source: object, columns: Columns, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a reader of FIXED. Raises InvalidInput for settings that do not apply to its format.

    Args:
        name: the format.
        source: the address of the log, for messages.
        columns: the meaning of the columns.
        settings: other arguments.
    """
    known, arguments = signature(FIXED[name]).parameters, dict(settings)
    refused = list(settings.keys() - known.keys())
    for field in columns.renamed:
        if field == "Columns.cluster" and "cluster" in known:
            arguments["cluster"] = columns.cluster
        elif field in ("Columns.reward", "Columns.other_rewards") and "reward" in known:
            name_of_field = field.removeprefix("Columns.")
            arguments[name_of_field] = getattr(columns, name_of_field)
        elif not (name == "export" and columns.features == "features" and field == "Columns.features"):
            refused.append(field)
    if refused:
        setting = "a feature map" if min(refused) == "features" else min(refused)
        raise InvalidInput(
            f"{setting} does not apply to {source}, whose format defines its columns and arms. Leave it out",
            field=min(refused),
        )
    return arguments


def _format_of(path: Path, columns: Columns) -> str:
    """Recognise the format of a file or a folder. Named columns mean that JSON is not in dsjson format."""
    if path.is_dir():
        if is_export(path):
            return "export"
        if is_open_bandit(path):
            return "open-bandit"
        names = [file.name for file in path.rglob("*")]
        formats = [name for name in ("parquet", "csv") if any(file.endswith(SUFFIXES[name]) for file in names)]
    else:
        formats = [name for name, suffixes in SUFFIXES.items() if path.name.endswith(suffixes)]
    if not formats:
        raise InvalidInput(
            f"{path} must end with .parquet, .csv, .csv.gz, .tsv, .dsjson, .json, .jsonl or .ndjson, or be a folder "
            "with files of the first four or of the Open Bandit format"
        )
    return "dsjson" if formats[0] == "json-lines" and not columns.renamed and is_dsjson(path) else formats[0]
