"""The options of commands that read a log: its address, its columns, and how columns become features."""

import csv
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer
from rich.console import Console

from glbandits.cli.common_options import LINK_NAMES
from glbandits.common.errors import InvalidInput, check_float, lookup
from glbandits.evaluation import Columns, Log, estimate_propensities
from glbandits.evaluation.readers.table_layout import LogOptions
from glbandits.evaluation.replay.learning_curve import Learn
from glbandits.features import Hashed, Hashing, Text
from glbandits.features.kinds.column_kind import MISSING, ColumnKind
from glbandits.service.export.log_source import FORMATS, open_log_or_store

LEARN_MODES: Mapping[str, Learn] = MappingProxyType({"matched": "matched", "all": "all"})
SIZED_KINDS: Mapping[str, Callable[[int], ColumnKind]] = MappingProxyType({"text": Text, "hashed": Hashed})
"""Kinds of columns that take a number of features."""

LearnOption: TypeAlias = Annotated[
    str, typer.Option(help="Rows that a policy learns for its learning curve: matched or all.")
]


@dataclass(frozen=True)
class LogFileOptions:
    """The address of a log, and the columns that every log has."""

    log: Annotated[
        str,
        typer.Argument(
            help="A Parquet, CSV, JSON-lines (.jsonl, .ndjson) or dsjson file, a folder of Parquet or CSV files, an "
            "Open Bandit folder, or an export or the store of a service."
        ),
    ]
    file_format: Annotated[str, typer.Option("--format", help=f"Format of the log: {', '.join(FORMATS)}.")] = "auto"
    separator: Annotated[str, typer.Option(help="Character between the fields of CSV files, such as ';', or tab.")] = (
        ","
    )
    loop: Annotated[str, typer.Option(help="The loop, if the log is the store of a service.")] = "default"
    arm: Annotated[str, typer.Option(help="Column with the name of the chosen arm.")] = "arm"
    reward: Annotated[str, typer.Option(help="Column with the reward of the chosen arm.")] = "reward"
    link: Annotated[str | None, typer.Option(help=f"Link of the rewards: {LINK_NAMES}. It determines their range.")] = (
        None
    )

    @property
    def field_separator(self) -> str:
        """The character between the fields of CSV files."""
        return "\t" if self.separator == "tab" else self.separator


@dataclass(frozen=True)
class PropensityOptions:
    """The columns with the probabilities of the logging policy."""

    propensity: Annotated[str, typer.Option(help="Column with the probability of the chosen arm.")] = "propensity"
    probabilities: Annotated[
        str,
        typer.Option(help="Column with the probabilities of all arms, or p_{arm} for one column per arm. '' for none."),
    ] = "probabilities"
    estimate_propensities: Annotated[
        bool,
        typer.Option("--estimate-propensities", help="Estimate the propensities, if the log does not have them."),
    ] = False


@dataclass(frozen=True)
class ColumnOptions:
    """The columns and files with features."""

    context: Annotated[
        list[str],
        typer.Option(
            help="Columns with the context of the row: age,country. May be repeated. A name with a comma has double "
            "quotes, within those of the shell: '\"age, years\",country'."
        ),
    ] = field(default_factory=list)
    per_arm: Annotated[
        list[str], typer.Option(help="Columns with a number for each arm: affinity_{arm}. May be repeated.")
    ] = field(default_factory=list)
    arms: Annotated[str | None, typer.Option(help="Column with a list of the arms of the row.")] = None
    features: Annotated[str | None, typer.Option(help="Column with a list of numbers for each arm of the row.")] = None
    cluster: Annotated[
        str | None, typer.Option(help="Column of the cluster. Rows of one cluster, such as a user, are dependent.")
    ] = None
    arm_table: Annotated[Path | None, typer.Option(help="Parquet or CSV file with the features of each arm.")] = None


@dataclass(frozen=True)
class FeatureOptions:
    """How columns become features."""

    kind: Annotated[
        list[str],
        typer.Option(
            help="Kind of a column, if it should not be inferred: price=number. Repeat for other columns. "
            "Text and hashed columns take a number of features: search=text:1048576."
        ),
    ] = field(default_factory=list)
    missing: Annotated[
        str | None, typer.Option(help="Missing values: indicator (an extra feature), impute (the mean) or error.")
    ] = None
    crosses: Annotated[
        list[str],
        typer.Option(
            help="Pairs of columns that are multiplied: all, none, or country:topic,age:topic. May be repeated."
        ),
    ] = field(default_factory=list)
    per_arm_block: Annotated[
        bool, typer.Option("--per-arm-block", help="Give each arm its own features, besides those of --arm-table.")
    ] = False
    sparse: Annotated[
        bool | None, typer.Option(help="Store only nonzero features. Default: if there are more than 4,096 features.")
    ] = None
    hash_width: Annotated[int | None, typer.Option(help="Number of hashed features of a dsjson log, up to 2^31.")] = (
        None
    )

    def parse(self) -> LogOptions:
        """Return the settings of the feature map.

        >>> FeatureOptions(kind=["price=number"], crosses=["country:topic,age:topic"]).parse()
        {'kinds': {'price': 'number'}, 'crosses': [('country', 'topic'), ('age', 'topic')]}
        >>> FeatureOptions(kind=["search=text:1048576"]).parse()
        {'kinds': {'search': Text(size=1048576)}}
        """
        options: LogOptions = {}
        for text in self.kind:
            name, _, kind = text.rpartition("=")
            if not name:
                raise InvalidInput(f"--kind is written column=kind, such as price=number; got {text!r}")
            options["kinds"] = {**options.get("kinds", {}), name: _parse_kind(kind)}
        if self.missing is not None:
            options["missing"] = lookup("way to treat missing values", self.missing, MISSING)
        if self.crosses:
            options["crosses"] = "all" if self.crosses == ["all"] else _parse_pairs(self.crosses)
        if self.per_arm_block:
            options["per_arm_block"] = True
        if self.sparse is not None:
            options["sparse"] = self.sparse
        return options


class OpenedLog(NamedTuple):
    """A log, and notes on it that the user must see."""

    log: Log
    notes: list[str]


def open_log_of_options(
    console: Console,
    file: LogFileOptions,
    columns: ColumnOptions,
    *,
    propensities: PropensityOptions | None = None,
    options: LogOptions | None = None,
    hash_width: int | None = None,
) -> OpenedLog:
    """Open the log that the options describe.

    Args:
        console: shows that the log is being read.
        file: the address of the log.
        columns: the columns with features.
        propensities: the columns with probabilities; None for a log that is only learned from.
        options: settings of the feature map.
        hash_width: number of features of a dsjson log.
    """
    is_estimated = propensities is not None and propensities.estimate_propensities
    given = None if propensities is None or is_estimated else propensities
    settings: dict[str, Any] = {**(options or {})}
    given_settings = {"link": file.link, "arm_table": columns.arm_table}
    settings |= {name: value for name, value in given_settings.items() if value is not None}
    if hash_width is not None:
        settings["hashing"] = Hashing(hash_width)
    with console.status("reading the log"):
        log = open_log_or_store(
            file.log,
            Columns(
                arm=file.arm,
                reward=file.reward,
                propensity=None if given is None else given.propensity,
                probabilities=None if given is None or not given.probabilities else given.probabilities,
                context=split_names(columns.context),
                per_arm=split_names(columns.per_arm),
                cluster=columns.cluster,
                arms=columns.arms,
                features=columns.features,
            ),
            format=file.file_format,
            loop=file.loop,
            separator=file.field_separator,
            **settings,
        )
        return _estimate_propensities(log) if is_estimated else OpenedLog(log, [])


def _estimate_propensities(log: Log) -> OpenedLog:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        completed = estimate_propensities(log)
    return OpenedLog(completed, [str(warning.message) for warning in caught])


def split_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Split names at commas that are not in double quotes.

    >>> split_names(["age, country", '"years, in all"']), split_names([""])
    (('age', 'country', 'years, in all'), ())
    """
    return tuple(name.strip() for text in texts for name in _split(text) if name.strip())


def _split(text: str) -> list[str]:
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except csv.Error:
        raise InvalidInput(
            f"names of columns are written age,country, and those with a comma in double quotes; got {text!r}"
        ) from None
    return names


def parse_reward_range(text: str | None) -> tuple[float, float] | None:
    """Parse two numbers with a comma between them.

    >>> parse_reward_range("-1,1")
    (-1.0, 1.0)
    """
    if text is None:
        return None
    try:
        low, high = (check_float("reward_range", float(part)) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--reward-range is written lowest,highest, such as -1,1; got {text!r}") from None
    if not low < high:
        raise InvalidInput(f"--reward-range must name the lowest reward first; got {text!r}")
    return low, high


def _parse_kind(text: str) -> str | ColumnKind:
    """Return the kind of this name; for text:1048576 the kind with this number of features."""
    name, colon, size = text.partition(":")
    if not colon:
        return text
    if name not in SIZED_KINDS or not size.isdecimal():
        raise InvalidInput(f"--kind takes a number of features for text and hashed, such as text:1048576; got {text!r}")
    return SIZED_KINDS[name](int(size))


def _parse_pairs(texts: list[str]) -> list[tuple[str, str]]:
    pairs = [pair.partition(":") for pair in split_names(texts) if pair != "none"]
    if not all(left and right for left, _, right in pairs):
        text = ",".join(texts)
        raise InvalidInput(f"--crosses is all, none, or pairs such as country:topic,age:topic; got {text!r}")
    return [(left, right) for left, _, right in pairs]
