"""The options of commands that read a log: its address, its columns, and how columns become features."""

import csv
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING as NO_VALUE
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console

from glbandits.cli.common_options import LINK_NAMES
from glbandits.common.errors import InvalidInput, lookup
from glbandits.evaluation import Columns, Log, ServiceExport, estimate_propensities
from glbandits.evaluation.learning.learning_curve import Learn
from glbandits.evaluation.logs.payoffs import opened_log
from glbandits.features import Hashed, Hashing, Text
from glbandits.features.kinds.column_kind import MISSING, ColumnKind
from glbandits.service.export.log_source import FORMATS, open_log_or_store

LEARN_MODES: Mapping[str, Learn] = MappingProxyType({"matched": "matched", "all": "all"})
SIZED_KINDS: Mapping[str, Callable[[int], ColumnKind]] = MappingProxyType({"text": Text, "hashed": Hashed})
"""Kinds of columns that take a number of features."""

PAYOFF_FILES = (".csv", ".csv.gz", ".parquet")
LINK_ADVICE = "; --link changes this"

PayoffsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="CSV or Parquet file with the columns arm, value and cost; or the columns of the log with the values and "
        "the costs of all arms: 'value_{arm},cost_{arm}'. Policies maximise value * reward - cost, and estimates are "
        "in these units. '' ignores those of a service's log.",
    ),
]
LearnOption: TypeAlias = Annotated[
    str, typer.Option(help="Rows that a policy learns for its learning curve: matched or all.")
]


@dataclass(frozen=True)
class LogFile:
    """The options of every command that reads a log: its address, and the columns that every log has."""

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
    link: Annotated[
        str | None,
        typer.Option(
            help=f"Link of the rewards: {LINK_NAMES}. It determines their range. Default: that of the service's loop; "
            "or logistic if rewards are 0 and 1, else identity."
        ),
    ] = None
    propensity: Annotated[str, typer.Option(help="Column with the probability of the chosen arm.")] = "propensity"

    @property
    def field_separator(self) -> str:
        """The character between the fields of CSV files."""
        return "\t" if self.separator == "tab" else self.separator

    def open_with(self, console: Console, columns: Columns, settings: Mapping[str, Any]) -> Log:
        """Open the log with these columns and settings of its reader. The console shows that it is being read."""
        link = {} if self.link is None else {"link": self.link}
        with console.status("reading the log"):
            return open_log_or_store(
                self.log,
                columns,
                format=self.file_format,
                loop=self.loop,
                separator=self.field_separator,
                **link,
                **settings,
            )


@dataclass(frozen=True)
class LogArguments(LogFile):
    """The options of a log with named columns."""

    probabilities: Annotated[
        str,
        typer.Option(help="Column with the probabilities of all arms, or p_{arm} for one column per arm. '' for none."),
    ] = "probabilities"
    estimate_propensities: Annotated[
        bool,
        typer.Option("--estimate-propensities", help="Estimate the propensities, if the log does not have them."),
    ] = False
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
    time: Annotated[
        str | None, typer.Option(help="Column with the time of the decision. Rows are read in its order.")
    ] = None
    id: Annotated[
        str | None, typer.Option(help="Column that identifies a decision. A log that has an id twice is refused.")
    ] = None
    arm_table: Annotated[Path | None, typer.Option(help="Parquet or CSV file with the features of each arm.")] = None
    kind: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=KIND",
            help="Kind of a column, if it should not be inferred: price=number. Repeat for other columns. "
            "Text and hashed columns take a number of features: search=text:1048576.",
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

    def open(
        self,
        console: Console,
        model_settings: Mapping[str, Any] | None = None,
        *,
        with_propensities: bool = True,
        proposed: tuple[str, ...] = (),
        has_range: bool = False,
        payoffs: str | None = None,
        other_rewards: tuple[str, ...] = (),
    ) -> tuple[Log, list[str]]:
        """Open the log, and return it with notes that the user must see.

        Args:
            console: shows that the log is being read.
            model_settings: settings with which models need the log to be read.
            with_propensities: False for a log that is only learned from.
            proposed: columns with the arms of candidates.
            has_range: whether the user has set the range of rewards.
            payoffs: a file with the values and costs of the arms, or the columns that have them; "" for none.
            other_rewards: columns with other rewards of the same decisions.
        """
        columns = self.columns(with_propensities and not self.estimate_propensities, proposed)
        columns = replace(columns, other_rewards=other_rewards)
        own = {"payoffs": payoffs or False} if payoffs is not None else {}
        if payoffs and not is_payoff_file(payoffs):
            columns, own = replace(columns, **_parse_payoffs(payoffs)), {}
        notes = list[str]()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            log = self.open_with(console, columns, self.reader_settings() | dict(model_settings or {}) | own)
            from_service = isinstance(opened_log(log), ServiceExport)
            if self.link is None and not from_service and log.schema.link == "logistic":
                reward_range = "" if has_range else " and their range 0 to 1"
                notes.append(f"rewards are 0 or 1, so the link is logistic{reward_range}{LINK_ADVICE}")
            if self.estimate_propensities and with_propensities:
                with console.status("estimating propensities"):
                    log = estimate_propensities(log)
        return log, [*notes, *(str(warning.message) for warning in caught)]

    def columns(self, with_propensities: bool = True, proposed: tuple[str, ...] = ()) -> Columns:
        """Return the meaning of the columns of the log. `proposed` are columns with the arms of candidates."""
        return Columns(
            arm=self.arm,
            reward=self.reward,
            propensity=self.propensity if with_propensities else None,
            probabilities=self.probabilities or None if with_propensities else None,
            context=split_names(self.context),
            per_arm=split_names(self.per_arm),
            cluster=self.cluster,
            arms=self.arms,
            features=self.features,
            proposed=proposed,
            time=self.time,
            id=self.id,
        )

    def given(self) -> list[tuple[str, ...]]:
        """Return the options that differ from their defaults, with their values.

        >>> LogArguments("log.csv", arm="offer", context=["age", "city"], estimate_propensities=True).given()
        [('--arm', 'offer'), ('--estimate-propensities',), ('--context', 'age'), ('--context', 'city')]
        """
        groups = list[tuple[str, ...]]()
        for option in fields(self)[1:]:
            value, name = getattr(self, option.name), "--" + option.name.replace("_", "-")
            default = option.default if option.default_factory is NO_VALUE else option.default_factory()
            if value == default:
                continue
            name = "--format" if option.name == "file_format" else name
            for each in value if isinstance(value, list) else [value]:
                groups.append((name,) if each is True else ("--no-sparse",) if each is False else (name, str(each)))
        return groups

    def reader_settings(self) -> dict[str, Any]:
        """Return the settings of the reader that options set, except the columns.

        >>> LogArguments("log.csv", kind=["price=number"], crosses=["country:topic,age:topic"]).reader_settings()
        {'kinds': {'price': 'number'}, 'crosses': [('country', 'topic'), ('age', 'topic')]}
        """
        crosses = "all" if self.crosses == ["all"] else _parse_pairs(self.crosses)
        settings = {
            "kinds": dict(map(_parse_kind, self.kind)) or None,
            "missing": None if self.missing is None else lookup("way to treat missing values", self.missing, MISSING),
            "crosses": crosses if self.crosses else None,
            "per_arm_block": self.per_arm_block or None,
            "sparse": self.sparse,
            "arm_table": self.arm_table,
            "hashing": None if self.hash_width is None else Hashing(self.hash_width),
        }
        return {name: value for name, value in settings.items() if value is not None}


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: replace the parameter `options` of a command, a LogFile or LogArguments, by its fields.

    The fields become options of the command, in their order and with their defaults, except those that the command
    declares itself.
    """
    signature = inspect.signature(command)
    group = signature.parameters["options"].annotation
    shared = [option for option in fields(group) if option.name not in signature.parameters]
    parameters = list[inspect.Parameter]()
    for parameter in signature.parameters.values():
        parameters += map(_as_parameter, shared) if parameter.name == "options" else [parameter]

    @wraps(command)
    def call(**values: Any) -> None:
        options = group(**{option.name: values.pop(option.name) for option in shared})
        command(options=options, **values)

    # typer reads the signature and the annotations
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _as_parameter(option: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is NO_VALUE else option.default
    default = default if option.default_factory is NO_VALUE else option.default_factory()
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.type)


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


def parse_reward_range(text: str) -> tuple[float, float]:
    """Parse two numbers with a comma between them.

    >>> parse_reward_range("-1,1")
    (-1.0, 1.0)
    """
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = 0.0, 0.0
    if not low < high:
        raise InvalidInput(f"--reward-range is written lowest,highest, such as -1,1; got {text!r}")
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


def _parse_pairs(texts: list[str]) -> list[tuple[str, str]]:
    pairs = [pair.partition(":") for pair in split_names(texts) if pair != "none"]
    if not all(left and right for left, _, right in pairs):
        text = ",".join(texts)
        raise InvalidInput(f"--crosses is all, none, or pairs such as country:topic,age:topic; got {text!r}")
    return [(left, right) for left, _, right in pairs]
