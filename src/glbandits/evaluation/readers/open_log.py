"""open_log: open a log from a data frame, a file or a folder, with the reader of its format.

The command line has its own table of formats in `service.export.log_source`, which also opens stores of the service.
"""

from os import PathLike
from pathlib import Path
from typing import Any

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.readers.columns import Columns
from glbandits.evaluation.readers.dsjson import is_dsjson, read_dsjson
from glbandits.evaluation.readers.open_bandit import is_open_bandit, read_open_bandit
from glbandits.evaluation.readers.service_export import is_export, read_export, renamed_columns
from glbandits.evaluation.readers.table_files import read_csv, read_json_lines, read_parquet
from glbandits.evaluation.readers.table_log import read_table

SUFFIXES = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "dsjson": (".dsjson",),
    "json": (".json", ".jsonl", ".ndjson"),
}
"""Suffixes of file names by format."""


def open_log(source: Any, columns: Columns | None = None, **settings: Any) -> Log:
    """Open a log from a data frame, a file or a folder.

    The suffix of a file determines its format.

    | source | read by |
    |---|---|
    | a polars, pandas or Arrow data frame, a list of dicts, a dict of columns | `read_table` |
    | .parquet, a folder or a pattern of such files | `read_parquet` |
    | .csv, .csv.gz, a folder or a pattern of such files | `read_csv` |
    | a folder with item_context.csv | `read_open_bandit` |
    | a folder that `glb export` wrote | `read_export` |
    | .dsjson; .json, .jsonl, .ndjson in dsjson format | `read_dsjson` |
    | other .json, .jsonl, .ndjson with one object per line | `read_json_lines` |

    >>> open_log("log.xlsx")
    Traceback (most recent call last):
    glbandits.common.errors.InvalidInput: log.xlsx must end with .parquet, .csv, .csv.gz, .dsjson, .json, .jsonl or ...

    Args:
        source: a table, or the path of a file or a folder.
        columns: the meaning of the columns; by default those of `Columns`. Must be None for the Open Bandit format and
            for dsjson, which have fixed columns. For an export of the service, only `cluster` can be set.
        settings: arguments of the function that reads the log, such as arm_table and link.
    """
    if not isinstance(source, str | PathLike):
        return read_table(source, columns or Columns(), **settings)
    path = Path(source)
    if path.is_dir() and is_export(path):
        renamed = renamed_columns(columns or Columns())
        if renamed:
            raise InvalidInput(
                f"{renamed[0]} does not apply to {path}, an export of the service, which has fixed columns. Leave it "
                "out, or read the files with read_parquet",
                field=renamed[0],
            )
        return read_export(path, cluster=None if columns is None else columns.cluster, **settings)
    kind = file_kind(path)
    if kind == "json":
        kind = "dsjson" if columns is None and is_dsjson(path) else "json lines"
    if kind == "json lines":
        return read_json_lines(path, columns or Columns(), **settings)
    if kind in ("open bandit", "dsjson"):
        if columns is not None:
            raise InvalidInput(f"columns must be None for {path}, because its format has fixed columns; got {columns}")
        return read_open_bandit(path, **settings) if kind == "open bandit" else read_dsjson(path, **settings)
    return (read_parquet if kind == "parquet" else read_csv)(path, columns or Columns(), **settings)


def file_kind(path: Path) -> str:
    """Return the format of a file or folder by its name: a key of SUFFIXES, or "open bandit"."""
    if path.is_dir() and is_open_bandit(path):
        return "open bandit"
    names = [file.name for file in path.rglob("*")] if path.is_dir() else [path.name]
    for kind, suffixes in SUFFIXES.items():
        if any(name.endswith(suffixes) for name in names) and not (path.is_dir() and kind in ("dsjson", "json")):
            return kind
    raise InvalidInput(
        f"{path} must end with .parquet, .csv, .csv.gz, .dsjson, .json, .jsonl or .ndjson, or be a folder with "
        "files of the first three or of the Open Bandit format"
    )
