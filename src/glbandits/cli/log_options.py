"""The options of commands that read a log: its address, its columns, and how columns become features."""

import csv
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console

from glbandits.cli.common_options import LINK_NAMES
from glbandits.common.errors import InvalidInput
from glbandits.evaluation import Columns, estimate_propensities
from glbandits.evaluation.learning.learning_curve import Learn
from glbandits.evaluation.logs.logged_data import Log
from glbandits.evaluation.logs.payoffs import opened_log
from glbandits.evaluation.readers.columns import EACH_ARM
from glbandits.evaluation.readers.open_log import has_lists_of_propensities, scan_log
from glbandits.evaluation.readers.service_export import ServiceExport
from glbandits.features import FeatureMap, Text
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.hashed_text import Hashed
from glbandits.service.export.log_source import is_store, open_log_or_store

LEARN_MODES: Mapping[str, Learn] = MappingProxyType({"matched": "matched", "all": "all"})
SIZED_KINDS: Mapping[str, Callable[[int], ColumnKind]] = MappingProxyType({"text": Text, "hashed": Hashed})
"""Kinds of columns that take a number of features."""
ESTIMATE = "estimate"
"""The word for --propensity that stands for no column."""

PAYOFF_FILES = (".csv", ".csv.gz", ".tsv", ".parquet")
LINK_ADVICE = "; --link changes this"

LogArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A Parquet, CSV, JSON-lines (.jsonl, .ndjson) or dsjson file, a folder of Parquet or CSV files, an "
        "Open Bandit folder, or an export or the store of a service."
    ),
]
ArmOption: TypeAlias = Annotated[str, typer.Option(help="Column with the name of the arm.")]
RewardOption: TypeAlias = Annotated[str, typer.Option(help="Column with the reward of the chosen arm.")]
LinkOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help=f"Link of the rewards: {LINK_NAMES}. It determines their range. Default: that of the service's loop; "
        "or logistic if rewards are 0 and 1, else identity."
    ),
]
PropensityOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the probability of the chosen arm, or with the probabilities of all arms. Or p_{arm} for one "
        "column per arm; or the word estimate. Default: propensity and probabilities, if there are such columns.",
    ),
]
ContextOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        help="Columns with the context of the row: age,country; affinity_{arm} for one column per arm. May be "
        "repeated. A name with a comma has double quotes, within those of the shell: '\"age, years\",country'."
    ),
]
ArmsOption: TypeAlias = Annotated[str | None, typer.Option(help="Column with a list of the arms of the row.")]
FeaturesOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Column with a list of numbers for each arm of the row.")
]
ClusterOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of the cluster. Rows of one cluster, such as a user, are dependent.")
]
TimeOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Column with the time of the decision. Rows are read in its order.")
]
IdOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Column that identifies a decision. A log that has an id twice is refused.")
]
ArmTableOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="Parquet or CSV file with the features of each arm.")
]
KindOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        metavar="COLUMN=KIND",
        help="Kind of a column, if it should not be inferred: price=number. Repeat for other columns. "
        "Text and hashed columns take a number of features: search=text:1048576.",
    ),
]
CrossesOption: TypeAlias = Annotated[
    list[str],
    typer.Option(help="Pairs of columns that are multiplied: all, none, or country:topic,age:topic. May be repeated."),
]
PayoffsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="CSV or Parquet file with the columns arm, value and cost; or columns with the values and the costs of "
        "all arms: 'value_{arm},cost_{arm}'. Policies maximise value * reward - cost, and estimates are in these "
        "units. '' ignores those of a service's log.",
    ),
]
TrainOption: TypeAlias = Annotated[
    float, typer.Option(help="The share of rows that comes first: to learn, or to choose settings. Others evaluate.")
]
LearnOption: TypeAlias = Annotated[
    str, typer.Option(help="Rows that a policy learns for its learning curve: matched or all.")
]


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """What the options of a command say about its log. Commands without an option leave the default."""

    log: str
    loop: str = "default"
    arm: str = "arm"
    reward: str = "reward"
    link: str | None = None
    propensity: str | None = None
    context: Sequence[str] = ()
    arms: str | None = None
    features: str | None = None
    cluster: str | None = None
    time: str | None = None
    id: str | None = None
    arm_table: Path | None = None
    kind: Sequence[str] = ()
    crosses: Sequence[str] = ()
    payoffs: str | None = None

    def given(self, *left_out: str) -> list[tuple[str, ...]]:
        """Return the options that differ from their defaults, with their values, for the next command.

        It has no option of `left_out`: names of fields.
        """
        groups = list[tuple[str, ...]]()
        for each in fields(self):
            value, name = getattr(self, each.name), f"--{each.name.replace('_', '-')}"
            if each.name == "log" or each.name in left_out or value == each.default:
                continue
            several = value if isinstance(value, list | tuple) else [value]
            groups += [(name,) if one is True else (name, str(one)) for one in several]
        return groups

    def open(
        self,
        console: Console,
        model_settings: Mapping[str, Any] | None = None,
        *,
        with_propensities: bool = True,
        proposed: tuple[str, ...] = (),
        has_range: bool = False,
        other_rewards: tuple[str, ...] = (),
    ) -> tuple[Log, list[str]]:
        """Open the log. Returns it with notes on what was chosen for the user, and with the reader's warnings.

        Args:
            console: shows that the log is being read.
            model_settings: settings with which models need the log to be read. The context of a table is by default
                that of their feature map.
            with_propensities: False for a log that is only learned from.
            proposed: columns with the arms of candidates.
            has_range: whether the user has set the range of rewards.
            other_rewards: columns with other rewards of the same decisions.
        """
        columns = self.columns(with_propensities=with_propensities, proposed=proposed)
        columns = replace(columns, other_rewards=other_rewards)
        of_model = (model_settings or {}).get("features")
        if isinstance(of_model, FeatureMap) and not self.context and not self.features and self._is_table(columns):
            columns = replace(columns, context=tuple(of_model.context.kinds))
        settings = self.reader_settings() | dict(model_settings or {}) | self._payoff_settings()
        notes = list[str]()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            with console.status("reading the log"):
                log = open_log_or_store(self.log, columns, loop=self.loop, **settings)
            from_service = isinstance(opened_log(log), ServiceExport)
            if self.link is None and not from_service and log.schema.link == "logistic":
                reward_range = "" if has_range else " and their range 0 to 1"
                notes.append(f"rewards are 0 or 1, so the link is logistic{reward_range}{LINK_ADVICE}")
            if self.propensity == ESTIMATE and with_propensities:
                with console.status("estimating propensities"):
                    log = estimate_propensities(log)
        return log, [*notes, *(str(warning.message) for warning in caught)]

    def _is_table(self, columns: Columns) -> bool:
        """Whether the log is a table, whose columns have names of its own."""
        return not is_store(self.log) and scan_log(self.log, columns) is not None

    def columns(self, *, with_propensities: bool = True, proposed: tuple[str, ...] = ()) -> Columns:
        """Return the meaning of the columns of the log. `proposed` are columns with the arms of candidates."""
        names = split_names(self.context)
        columns = Columns(
            arm=self.arm,
            reward=self.reward,
            context=tuple(name for name in names if EACH_ARM not in name),
            per_arm=tuple(name for name in names if EACH_ARM in name),
            cluster=self.cluster,
            arms=self.arms,
            features=self.features,
            proposed=proposed,
            time=self.time,
            id=self.id,
        )
        if self.payoffs and not is_payoff_file(self.payoffs):
            columns = replace(columns, **_parse_payoffs(self.payoffs))
        if not with_propensities or self.propensity == ESTIMATE:
            return replace(columns, propensity=None, probabilities=None)
        if self.propensity is None:
            return columns
        if EACH_ARM in self.propensity:
            return replace(columns, probabilities=self.propensity)
        named = replace(columns, propensity=self.propensity, probabilities=None)
        if not is_store(self.log) and has_lists_of_propensities(self.log, named):
            return replace(columns, probabilities=self.propensity)
        return named

    def reader_settings(self) -> dict[str, Any]:
        """Return the settings of the reader that options set, except the columns and the payoffs.

        >>> LogOptions(log="log.csv", kind=["price=number"], crosses=["country:topic,age:topic"]).reader_settings()
        {'kinds': {'price': 'number'}, 'crosses': [('country', 'topic'), ('age', 'topic')]}
        """
        crosses = "all" if list(self.crosses) == ["all"] else _parse_pairs(self.crosses)
        settings = {
            "link": self.link,
            "kinds": dict(map(_parse_kind, self.kind)) or None,
            "crosses": crosses if self.crosses else None,
            "arm_table": self.arm_table,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def _payoff_settings(self) -> dict[str, Any]:
        if self.payoffs is None or (self.payoffs and not is_payoff_file(self.payoffs)):
            return {}
        return {"payoffs": self.payoffs or False}


def split_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Split names at commas that are not in double quotes.

    >>> split_names(["age, country", '"years, in all"']), split_names([""])
    (('age', 'country', 'years, in all'), ())
    """
    names = list[str]()
    for text in texts:
        try:
            names += next(csv.reader([text], skipinitialspace=True, strict=True), [])
        except csv.Error:
            raise InvalidInput(
                f"names of columns are written age,country, and those with a comma in double quotes; got {text!r}"
            ) from None
    return tuple(name.strip() for name in names if name.strip())


def parse_range(text: str, option: str = "--reward-range") -> tuple[float, float]:
    """Parse two numbers with a comma between them.

    >>> parse_range("-1,1")
    (-1.0, 1.0)
    """
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = 0.0, 0.0
    if not low < high:
        raise InvalidInput(f"{option} is written lowest,highest, such as -1,1; got {text!r}")
    return low, high


def is_payoff_file(payoffs: str | None) -> bool:
    """Whether --payoffs names a file, not columns."""
    return payoffs is not None and (Path(payoffs).is_file() or payoffs.endswith(PAYOFF_FILES))


def _parse_payoffs(text: str) -> dict[str, Any]:
    """Return the columns of values and costs.

    >>> _parse_payoffs("margin_{arm},cost_{arm}"), _parse_payoffs("values")
    ({'values': 'margin_{arm}', 'costs': 'cost_{arm}'}, {'values': 'values'})
    """
    names = split_names([text])
    if len(names) not in (1, 2):
        raise InvalidInput(
            "--payoffs is a CSV or Parquet file, or the columns of values and costs, such as value_{arm},cost_{arm}; "
            f"got {text!r}"
        )
    return dict(zip(("values", "costs"), names, strict=False))


def _parse_kind(text: str) -> tuple[str, str | ColumnKind]:
    """Return the column and its kind; for search=text:1048576 the kind with this number of features.

    >>> _parse_kind("search=text:1048576")
    ('search', Text(size=1048576))
    """
    column, _, kind = text.rpartition("=")
    name, colon, size = kind.partition(":")
    if not column or (colon and not (name in SIZED_KINDS and size.isdecimal())):
        raise InvalidInput(
            f"--kind is written column=kind, such as price=number, or search=text:1048576 with a number of features; "
            f"got {text!r}"
        )
    return column, SIZED_KINDS[name](int(size)) if colon else kind


def _parse_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [pair.partition(":") for pair in split_names(texts) if pair != "none"]
    if not all(left and right for left, _, right in pairs):
        text = ",".join(texts)
        raise InvalidInput(f"--crosses is all, none, or pairs such as country:topic,age:topic; got {text!r}")
    return [(left, right) for left, _, right in pairs]
