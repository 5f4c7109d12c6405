"""Logs as they are named on the command line: a path, its format, and which column is what."""

import atexit
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import polars as pl

from glbandits.errors import InvalidInput, check_float, lookup
from glbandits.evaluation import (
    Columns,
    Log,
    estimate_propensities,
    open_log,
    read_csv,
    read_dsjson,
    read_open_bandit,
    read_parquet,
)
from glbandits.evaluation.logs.columns import NAME_THEM, check_present
from glbandits.evaluation.logs.log_features import LogOptions
from glbandits.evaluation.logs.open_bandit import is_open_bandit
from glbandits.evaluation.logs.table_layout import ONE_FOR_EACH, OTHER_PROBABILITIES, PROBABILITY_FOR_EACH
from glbandits.evaluation.logs.table_log import read_arm_table
from glbandits.evaluation.logs.table_rows import NOT_KNOWN
from glbandits.features import Hashed, Hashing, Text
from glbandits.features.kinds.column_kind import MISSING, ColumnKind

IN_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        NAME_THEM: "Say what they are called: --arm, --reward, --propensity (or --estimate-propensities if nobody "
        "wrote down the propensities)",
        NOT_KNOWN: "If the propensities are not known, say --estimate-propensities",
        ONE_FOR_EACH: "--per-arm needs a column for every arm",
        PROBABILITY_FOR_EACH: "--probabilities needs a column for every arm",
        OTHER_PROBABILITIES: "If it holds something else, say --probabilities ''",
        "such as Columns(probabilities='p_{arm}')": "such as --probabilities 'p_{arm}'",
        "Give one, or a list of policies": "Say --grid setting=value,value",
        "give reward_range": "say --reward-range or --link",
        "all arms in arm_table": "all arms in --arm-table",
        "the arm to arm_table": "the arm to --arm-table",
        "use missing='indicator' or 'impute'": "say --missing indicator or impute",
        "Name it in Columns(context=...), or give arm_table": "Name it in --context, or give --arm-table",
        "arm_table must be a": "--arm-table must be a",
        "arm_table: ": "--arm-table: ",
        "the arms as arm_table": "the arms as --arm-table",
        "arm of arm_table": "arm of --arm-table",
    }
)
"""What errors of readers say, and the same for who types options."""

KINDS = re.compile(r"kinds=\{'(.+?)': '(\w+)'\}")
"""How errors write the kind of a column."""
UNNAMED = Columns(propensity=None, probabilities=None)
"""What `glb train` says if the user names no column: it needs no propensities."""
HASHED: Mapping[str, Callable[[int], ColumnKind]] = MappingProxyType({"text": Text, "hashed": Hashed})
"""Kinds whose number of features can be told."""
STORES = frozenset({".sqlite", ".db"})
"""Endings of the store of a server."""


@dataclass(frozen=True, kw_only=True)
class LogFile:
    """Where a log is, and what the user said about it."""

    address: str
    """A path, or the postgresql:// address of a server's store."""
    columns: Columns
    arm_table: Path | None
    link: str | None
    loop: str
    """Of the store of a server."""
    options: LogOptions = field(default_factory=LogOptions)
    """How columns become features."""
    hash_width: int | None = None
    """Of the features of a dsjson log."""

    @property
    def path(self) -> Path:
        """The address as a path."""
        return Path(self.address)

    @property
    def knows_columns(self) -> bool:
        """Whether the file is of a format that knows its columns, and no propensity was asked for."""
        named = self.path.suffix == ".dsjson" or is_open_bandit(self.path)
        return named and self.columns == UNNAMED

    def said(self) -> dict[str, Any]:
        """The settings of a reader that the user did not leave as they were."""
        said: dict[str, Any] = {**self.options} if self.link is None else {**self.options, "link": self.link}
        if self.columns != (UNNAMED if self.knows_columns else Columns()):
            said["columns"] = self.columns
        if self.arm_table is not None:
            said["arm_table"] = read_arm_table(self.arm_table)
        if self.hash_width is not None:
            said["hashing"] = Hashing(self.hash_width)
        return said


@contextmanager
def said_as_options() -> Iterator[None]:
    """Have errors name the options of the command, where they would name arguments of Python."""
    try:
        yield
    except InvalidInput as error:
        said = str(error)
        for words, options in IN_OPTIONS.items():
            said = said.replace(words, options)
        raise InvalidInput(KINDS.sub(r"--kind \1=\2", said)) from None


def _read_table(read: Callable[..., Log], file: LogFile) -> Log:
    return read(file.path, **{"columns": file.columns} | file.said())


def _read_own(read: Callable[..., Log], file: LogFile) -> Log:
    said = file.said()
    if set(said) - {"link", "sparse", "hashing"}:
        raise InvalidInput(f"{file.path} is of a format that knows its columns and arms; leave out options of columns")
    return read(file.path, **said)


def _read_store(file: LogFile) -> Log:
    """The log of a server: exported to a folder that is gone when the command ends."""
    from glbandits.cli.export import opened_store  # of the extra [serve]
    from glbandits.service_logs.exported_log import open_export
    from glbandits.service_logs.loop_export import export_loop

    place = TemporaryDirectory()
    atexit.register(place.cleanup)
    folder = Path(place.name) / "log"
    with closing(opened_store(file.address)) as store:
        written = export_loop(store, file.loop, folder)
    if not written.rows:
        raise InvalidInput(f"no decision of loop {file.loop!r} in {file.address} has been waited for long enough yet")
    return open_export(folder, file.link or "identity", cluster=file.columns.cluster)


def _read_sparse_export(file: LogFile) -> Log:
    from glbandits.service_logs.exported_log import open_export  # of the extra [serve]

    return _read_own(open_export, file)


def _read_any(file: LogFile) -> Log:
    if file.path.suffix in STORES or file.address.startswith(("postgresql://", "postgres://")):
        return _read_store(file)
    return _read_sparse_export(file) if _is_sparse_export(file.path) else open_log(file.path, **file.said())


def _is_sparse_export(folder: Path) -> bool:
    """Whether it is an export of a sparse loop of a server. The server need not be installed."""
    try:
        return json.loads((folder / "manifest.json").read_bytes())["sparse_width"] is not None
    except (OSError, ValueError, KeyError, TypeError):
        return False


FORMATS: Mapping[str, Callable[[LogFile], Log]] = MappingProxyType(
    {
        "auto": _read_any,
        "store": _read_store,
        "parquet": partial(_read_table, read_parquet),
        "csv": partial(_read_table, read_csv),
        "open-bandit": partial(_read_own, read_open_bandit),
        "dsjson": partial(_read_own, read_dsjson),
    }
)


def with_estimated_propensities(log: Log) -> tuple[Log, list[str]]:
    """The log with propensities that were guessed, and all warnings about that."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        completed = estimate_propensities(log)
    return completed, [str(warning.message) for warning in caught]


def arm_embeddings(arm_table: Path | None, columns: tuple[str, ...]) -> dict[str, list[Any]] | None:
    """The categories of each arm, by its name, from columns of the table of arms; None if no column is named."""
    if not columns:
        return None
    if arm_table is None:
        raise InvalidInput("--embedding names columns of the table of arms. Give --arm-table too")
    table = read_arm_table(arm_table)
    check_present(columns, table.columns, "--arm-table", advice="Name columns of it as --embedding")
    return {str(row[0]): list(row[1:]) for row in table.select(pl.nth(0).alias("arm"), *columns).iter_rows()}


def feature_options(
    kinds: Sequence[str], missing: str | None, crosses: str | None, per_arm_block: bool, sparse: bool | None = None
) -> LogOptions:
    """How columns become features, as options write it: --kind price=number --crosses country:topic.

    >>> feature_options(["price=number"], None, "country:topic,age:topic", False)
    {'kinds': {'price': 'number'}, 'crosses': [('country', 'topic'), ('age', 'topic')]}
    >>> feature_options(["search=text:1048576"], None, None, False)
    {'kinds': {'search': Text(size=1048576)}}
    """
    options: LogOptions = {}
    for text in kinds:
        name, _, kind = text.rpartition("=")
        if not name:
            raise InvalidInput(f"--kind is written column=kind, such as price=number; got {text!r}")
        options["kinds"] = {**options.get("kinds", {}), name: _kind(kind)}
    if missing is not None:
        options["missing"] = lookup("way to treat missing values", missing, MISSING)
    if crosses is not None:
        options["crosses"] = "all" if crosses == "all" else _pairs(crosses)
    if per_arm_block:
        options["per_arm_block"] = True
    if sparse is not None:
        options["sparse"] = sparse
    return options


def _kind(text: str) -> str | ColumnKind:
    """A kind by its name; of hashed ones maybe with the number of features, such as text:1048576."""
    name, colon, size = text.partition(":")
    if not colon:
        return text
    if name not in HASHED or not size.isdecimal():
        raise InvalidInput(f"--kind takes a number of features for text and hashed, such as text:1048576; got {text!r}")
    return HASHED[name](int(size))


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = [pair.partition(":") for pair in column_names(text) if pair != "none"]
    if not all(left and right for left, _, right in pairs):
        raise InvalidInput(f"--crosses is all, none, or pairs such as country:topic,age:topic; got {text!r}")
    return [(left, right) for left, _, right in pairs]


def column_names(text: str) -> tuple[str, ...]:
    """Names that are written with commas between them.

    >>> column_names("age, country"), column_names("")
    (('age', 'country'), ())
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def reward_range(text: str | None) -> tuple[float, float] | None:
    """Two numbers with a comma between them.

    >>> reward_range("-1,1")
    (-1.0, 1.0)
    """
    if text is None:
        return None
    try:
        low, high = (check_float("--reward-range", float(part)) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--reward-range is written lowest,highest, such as -1,1; got {text!r}") from None
    if not low < high:
        raise InvalidInput(f"--reward-range must name the lowest reward first; got {text!r}")
    return low, high
