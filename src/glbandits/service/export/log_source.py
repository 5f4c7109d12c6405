"""Open a log by its address: a file or folder of any format, or an export or the store of a service.

`FORMATS` are the formats of `glb evaluate --format`. `evaluation.open_log` recognises the formats of files.
"""

import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.extras import needed_for
from glbandits.evaluation import (
    Columns,
    Log,
    read_csv,
    read_dsjson,
    read_export,
    read_json_lines,
    read_open_bandit,
    read_parquet,
)
from glbandits.evaluation.readers.dsjson import is_dsjson
from glbandits.evaluation.readers.log_features import declared_texts
from glbandits.evaluation.readers.open_log import file_kind
from glbandits.evaluation.readers.service_export import is_export, renamed_columns
from glbandits.evaluation.readers.table_log import read_arm_table

DEFAULT_COLUMNS = (Columns(), Columns(propensity=None, probabilities=None))
"""The columns of a log if no column is named; the second for a log that is only learned from."""
STORE_ENDINGS = frozenset({".sqlite", ".db"})
POSTGRES = ("postgresql://", "postgres://")
TABLES: Mapping[str, Callable[..., Log]] = MappingProxyType(
    {"parquet": read_parquet, "csv": read_csv, "json-lines": read_json_lines}
)
"""Readers of formats in which the user names the columns."""
FIXED: Mapping[str, Callable[..., Log]] = MappingProxyType(
    {"store": read_export, "export": read_export, "open-bandit": read_open_bandit, "dsjson": read_dsjson}
)
"""Readers of formats that define their columns and arms."""
FORMATS = ("auto", *TABLES, *FIXED)


def open_any_log(
    address: str,
    columns: Columns = DEFAULT_COLUMNS[0],
    *,
    file_format: str = "auto",
    loop: str = "default",
    separator: str = ",",
    **settings: Any,
) -> Log:
    """Open a log. Raises InvalidInput for settings that the format of the log does not have.

    Args:
        address: a path, or the postgresql:// address of a service's store.
        columns: the meaning of the columns.
        file_format: a name of FORMATS; "auto" recognises the format by the address.
        loop: the loop, if the log is the store of a service.
        separator: the character between the fields of CSV files.
        settings: arguments of the function that reads the log. `arm_table` is a path.
    """
    lookup("format", file_format, dict.fromkeys(FORMATS))
    found = _recognise(address, columns) if file_format == "auto" else file_format
    if found not in TABLES:
        read = FIXED[found]
        settings = _fixed_settings(address, read, columns, separator, settings)
        return _read_store(address, loop, settings) if found == "store" else read(Path(address), **settings)
    if "arm_table" in settings:
        texts = declared_texts(settings)  # type: ignore[arg-type]
        settings["arm_table"] = read_arm_table(settings["arm_table"], separator, texts)
    if found == "csv":
        settings["separator"] = separator
    return TABLES[found](Path(address), columns, **settings)


def _recognise(address: str, columns: Columns) -> str:
    """Return the format of a log by its address: a name of FORMATS."""
    path = Path(address)
    if path.suffix in STORE_ENDINGS or address.startswith(POSTGRES):
        return "store"
    if path.is_dir() and is_export(path):
        return "export"
    kind = file_kind(path)
    if kind == "json":
        return "dsjson" if columns in DEFAULT_COLUMNS and is_dsjson(path) else "json-lines"
    return kind.replace(" ", "-")


def _fixed_settings(
    address: str, read: Callable[..., Log], columns: Columns, separator: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a reader of FIXED. Raises InvalidInput for settings that it does not have."""
    refused = settings.keys() - signature(read).parameters.keys()
    if separator != ",":
        refused.add("separator")
    if read is read_export:
        refused.update(renamed_columns(columns))
        settings = settings | {"cluster": columns.cluster}
    elif columns not in DEFAULT_COLUMNS:
        refused.add("columns")
    words = {"features": "a feature map", "columns": "a name of a column"}
    for name in sorted(refused):
        raise InvalidInput(
            f"{words.get(name, name)} does not apply to {address}, whose format defines its columns and arms. "
            "Leave it out",
            field=name,
        )
    return settings


def _read_store(address: str, loop: str, settings: dict[str, Any]) -> Log:
    """Export the log of a service's store to a temporary folder, and open it.

    The folder is removed when the log is garbage collected, and at exit.
    """
    with needed_for("the log of a service", "serve"):
        from glbandits.service.export.loop_export import export_loop
        from glbandits.service.storage.open_store import open_existing_store

    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory())) / "log"
        with closing(open_existing_store(address)) as store:
            written = export_loop(store, loop, folder)
        if not written.rows:
            raise InvalidInput(
                f"loop {loop!r} of {address} has no settled decision. Wait until reward windows have closed, or name "
                "another loop"
            )
        log = read_export(folder, **settings)
        weakref.finalize(log, stack.pop_all().close)
    return log
