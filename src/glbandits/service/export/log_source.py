"""Open a log by its address: a file or folder of any format, or an export or the store of a service.

`FORMATS` are the formats of `glb evaluate --format`. `evaluation.open_log` recognises the formats of files.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from glbandits.common.errors import InvalidInput, lookup, parameter
from glbandits.common.extras import needed_for
from glbandits.evaluation import (
    Columns,
    Log,
    open_log,
    read_csv,
    read_dsjson,
    read_export,
    read_json_lines,
    read_open_bandit,
    read_parquet,
)
from glbandits.evaluation.readers.dsjson import is_dsjson
from glbandits.evaluation.readers.log_features import LogOptions, declared_texts
from glbandits.evaluation.readers.open_bandit import is_open_bandit
from glbandits.evaluation.readers.open_log import SUFFIXES, file_kind
from glbandits.evaluation.readers.service_export import is_export, renamed_columns
from glbandits.evaluation.readers.table_log import read_arm_table
from glbandits.features import Hashing

WITHOUT_PROPENSITIES = Columns(propensity=None, probabilities=None)
"""The columns of a log that is only learned from, with default names."""
STORE_ENDINGS = frozenset({".sqlite", ".db"})
POSTGRES = ("postgresql://", "postgres://")


@dataclass(frozen=True, kw_only=True)
class LogSource:
    """The address of a log and the settings with which it is read."""

    address: str
    """A path, or the postgresql:// address of a service's store."""
    columns: Columns = field(default_factory=Columns)
    arm_table: Path | None = None
    link: str | None = None
    loop: str = "default"
    """The loop of a service's store."""
    options: LogOptions = field(default_factory=LogOptions)
    """Settings of the feature map."""
    hash_width: int | None = None
    """The number of features of a dsjson log."""
    separator: str = ","
    """The character between the fields of CSV files."""

    @property
    def path(self) -> Path:
        """The address as a path."""
        return Path(self.address)

    @property
    def is_dsjson(self) -> bool:
        """Whether the address is a dsjson file."""
        return self.path.name.endswith(SUFFIXES["dsjson"] + SUFFIXES["json"]) and is_dsjson(self.path)

    @property
    def defines_columns(self) -> bool:
        """Whether the format of the log has fixed columns."""
        return is_open_bandit(self.path) or self.is_dsjson

    def open(self, file_format: str = "auto") -> Log:
        """Open the log. `file_format` is a name of FORMATS; "auto" recognises the format by the address."""
        return lookup("format", file_format, FORMATS)(self)

    def reader_settings(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults of a reader."""
        settings: dict[str, Any] = {**self.options}
        if self.link is not None:
            settings["link"] = self.link
        # A format that defines its columns refuses columns. `glb train` gives WITHOUT_PROPENSITIES for every log.
        if self.columns != Columns() and not (self.defines_columns and self.columns == WITHOUT_PROPENSITIES):
            settings["columns"] = self.columns
        if self.arm_table is not None:
            settings["arm_table"] = read_arm_table(self.arm_table, self.separator, declared_texts(self.options))
        if self.hash_width is not None:
            settings["hashing"] = Hashing(self.hash_width)
        return settings


def open_store_log(source: LogSource) -> Log:
    """Export the log of a service's store to a temporary folder, and open it.

    The folder is removed when the log is garbage collected, and at exit.
    """
    with needed_for("the log of a service", "serve"):
        from glbandits.service.export.loop_export import export_loop
        from glbandits.service.storage.open_store import open_existing_store

    settings = _export_settings(source)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory())) / "log"
        with closing(open_existing_store(source.address)) as store:
            written = export_loop(store, source.loop, folder)
        if not written.rows:
            raise InvalidInput(
                f"loop {source.loop!r} of {source.address} has no settled decision. Wait until reward windows have "
                "closed, or name another loop"
            )
        log = read_export(folder, **settings)
        weakref.finalize(log, stack.pop_all().close)
    return log


def _open_export(source: LogSource) -> Log:
    return read_export(source.path, **_export_settings(source))


def _export_settings(source: LogSource) -> dict[str, Any]:
    """Return the arguments of `read_export`. Raises InvalidInput for settings that cannot apply to an export."""
    _refuse(source, renamed_columns(source.columns))
    settings = source.reader_settings() | {"cluster": source.columns.cluster}
    settings.pop("columns", None)
    _refuse(source, settings.keys() - signature(read_export).parameters.keys())
    return settings


def _refuse(source: LogSource, names: Iterable[str]) -> None:
    """Raise InvalidInput for settings, by name, that the format of the log does not have, and for a separator."""
    words = {"features": "a feature map", "columns": "a name of a column"}
    for name in sorted({*names, *(["separator"] if source.separator != "," else [])}):
        setting = words.get(name) or parameter(name)
        raise InvalidInput(
            f"{setting} does not apply to {source.address}, whose format defines its columns and arms. Leave it out"
        )


def _open_table(read: Callable[..., Log], source: LogSource) -> Log:
    return read(source.path, **{"columns": source.columns} | source.reader_settings())


def _open_csv(source: LogSource) -> Log:
    return _open_table(partial(read_csv, separator=source.separator), source)


def _open_format_with_columns(read: Callable[..., Log], source: LogSource) -> Log:
    settings = source.reader_settings()
    _refuse(source, settings.keys() - signature(read).parameters.keys())
    return read(source.path, **settings)


def _open_any(source: LogSource) -> Log:
    if source.path.suffix in STORE_ENDINGS or source.address.startswith(POSTGRES):
        return open_store_log(source)
    if source.path.is_dir() and is_export(source.path):
        return _open_export(source)
    if is_open_bandit(source.path):
        return _open_format_with_columns(read_open_bandit, source)
    settings = source.reader_settings()
    if source.is_dsjson and "columns" not in settings:
        return _open_format_with_columns(read_dsjson, source)
    if source.separator != "," and file_kind(source.path) == "csv":
        settings["separator"] = source.separator
    return open_log(source.path, **settings)


FORMATS: Mapping[str, Callable[[LogSource], Log]] = MappingProxyType(
    {
        "auto": _open_any,
        "store": open_store_log,
        "export": _open_export,
        "parquet": partial(_open_table, read_parquet),
        "csv": _open_csv,
        "open-bandit": partial(_open_format_with_columns, read_open_bandit),
        "json-lines": partial(_open_table, read_json_lines),
        "dsjson": partial(_open_format_with_columns, read_dsjson),
    }
)
