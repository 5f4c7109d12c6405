"""open_log: a log, whatever it is kept in."""

from os import PathLike
from pathlib import Path
from typing import Any

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.columns import Columns
from glbandits.evaluation.logs.dsjson import read_dsjson
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.open_bandit import is_open_bandit, read_open_bandit
from glbandits.evaluation.logs.table_files import read_csv, read_json_lines, read_parquet
from glbandits.evaluation.logs.table_log import read_table

KINDS = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "dsjson": (".dsjson",),
    "json": (".json", ".jsonl", ".ndjson"),
}
"""How the names of files end."""


def open_log(source: Any, columns: Columns | None = None, **settings: Any) -> Log:
    """A log from a data frame, a file or a folder; the kind of a file is told by its ending.

    | source | read by |
    |---|---|
    | a data frame of polars, pandas or Arrow, a list of dicts, a dict of columns | `read_table` |
    | .parquet, a folder of such, a pattern | `read_parquet` |
    | .csv, .csv.gz, a folder of such, a pattern | `read_csv` |
    | a folder with item_context.csv | `read_open_bandit` |
    | .dsjson; .json, .jsonl, .ndjson without columns | `read_dsjson` |
    | .json, .jsonl, .ndjson with columns | `read_json_lines` |

    >>> open_log("log.xlsx")
    Traceback (most recent call last):
    glbandits.errors.InvalidInput: log.xlsx must end with .parquet, .csv, .csv.gz, .dsjson, .json, .jsonl or ...

    Args:
        source: what holds the log.
        columns: which column is what; by default those of `Columns`. The Open Bandit format and dsjson
            know theirs.
        settings: of the function that reads it, such as arm_table and link.
    """
    if not isinstance(source, str | PathLike):
        return read_table(source, columns or Columns(), **settings)
    path = Path(source)
    kind = _kind(path)
    if kind == "json" and columns is not None:
        return read_json_lines(path, columns, **settings)
    if kind in ("open bandit", "dsjson", "json"):
        if columns is not None:
            raise InvalidInput(f"{path} knows its columns; leave columns out")
        return read_open_bandit(path, **settings) if kind == "open bandit" else read_dsjson(path, **settings)
    return (read_parquet if kind == "parquet" else read_csv)(path, columns or Columns(), **settings)


def _kind(path: Path) -> str:
    if path.is_dir() and is_open_bandit(path):
        return "open bandit"
    names = [file.name for file in path.rglob("*")] if path.is_dir() else [path.name]
    for kind, endings in KINDS.items():
        if any(name.endswith(endings) for name in names) and not (path.is_dir() and kind in ("dsjson", "json")):
            return kind
    raise InvalidInput(
        f"{path} must end with .parquet, .csv, .csv.gz, .dsjson, .json, .jsonl or .ndjson, or be a folder with "
        "files of the first three or of the Open Bandit format"
    )
