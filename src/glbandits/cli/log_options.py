"""The options of commands that read a log: where it is, its format, and which column is what."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from glbandits.cli.log_file import FORMATS, LogFile, column_names, said_as_options, with_estimated_propensities
from glbandits.errors import lookup
from glbandits.evaluation import Columns, Log
from glbandits.evaluation.logs.log_features import LogOptions
from glbandits.evaluation.replay.learning_curve import Learn

LogArgument: TypeAlias = Annotated[
    str, typer.Argument(help="A Parquet file or folder, CSV, an Open Bandit folder, dsjson, or a server's store.")
]
FormatOption: TypeAlias = Annotated[
    str, typer.Option("--format", help="auto, parquet, csv, open-bandit, dsjson, store.")
]
LoopOption: TypeAlias = Annotated[str, typer.Option(help="A loop, if the log is the store of a server.")]
ArmOption: TypeAlias = Annotated[str, typer.Option(help="The column with the name of the chosen arm.")]
RewardOption: TypeAlias = Annotated[str, typer.Option(help="The column with its reward.")]
PropensityOption: TypeAlias = Annotated[
    str, typer.Option(help="The column with the probability that the chosen arm had.")
]
ProbabilitiesOption: TypeAlias = Annotated[
    str, typer.Option(help="The column with the probabilities of all arms, or p_{arm}: one for each. '': none.")
]
ContextOption: TypeAlias = Annotated[str, typer.Option(help="Columns with what was known of the row: age,country")]
PerArmOption: TypeAlias = Annotated[str, typer.Option(help="Columns with a number for each arm: affinity_{arm}")]
ArmsOption: TypeAlias = Annotated[str | None, typer.Option(help="The column with a list of the arms that the row had.")]
FeaturesOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The column with a list of numbers for each of them.")
]
ClusterOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Rows with the same value here depend on each other: one user, or one decision.")
]
ArmTableOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="A Parquet or CSV file with the features of each arm.")
]
LinkOption: TypeAlias = Annotated[
    str | None, typer.Option(help="identity, logistic, probit or log; tells what rewards are.")
]
EstimateOption: TypeAlias = Annotated[
    bool, typer.Option("--estimate-propensities", help="If nobody wrote down the propensities: guess them.")
]
KindOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        help="The kind of a column, if it should not be guessed: price=number. Repeat for other columns. "
        "Text and hashed columns may have a number of features: search=text:1048576."
    ),
]
MissingOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Missing values: indicator (a feature says so), impute (the mean), or error.")
]
CrossesOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Columns that are multiplied: all, none, or country:topic,age:topic")
]
BlockOption: TypeAlias = Annotated[
    bool, typer.Option("--per-arm-block", help="Give each arm features of its own, beside those of --arm-table.")
]
SparseOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(help="Keep only the features that are set. By default, if there are more than 4,096 features."),
]
HashWidthOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Of a dsjson log: the number of features that names are hashed to, up to 2^31.")
]
LearnOption: TypeAlias = Annotated[str, typer.Option(help="For learning curves: matched rows, or all.")]
JobsOption: TypeAlias = Annotated[int, typer.Option(help="Processes at once; -1 for one per core.")]
EngineOption: TypeAlias = Annotated[str, typer.Option(help="local, or ray (with the extra [ray]).")]

WAYS: dict[str, Learn] = {"matched": "matched", "all": "all"}


def opened_log(
    console: Console,
    *,
    log: str,
    file_format: str,
    loop: str,
    arm: str,
    reward: str,
    propensity: str | None,
    probabilities: str,
    context: str,
    per_arm: str,
    arms: str | None,
    features: str | None,
    cluster: str | None,
    arm_table: Path | None,
    link: str | None,
    estimate_propensities: bool,
    options: LogOptions,
    hash_width: int | None = None,
) -> tuple[Log, list[str]]:
    """Open the log that the options describe. Returns it, and notes that a reader must see."""
    read = lookup("format", file_format, FORMATS)
    columns = Columns(
        arm=arm,
        reward=reward,
        propensity=None if estimate_propensities else propensity,
        probabilities=None if estimate_propensities or not probabilities else probabilities,
        context=column_names(context),
        per_arm=column_names(per_arm),
        cluster=cluster,
        arms=arms,
        features=features,
    )
    with said_as_options(), console.status("looking at the log"):
        opened = read(
            LogFile(
                address=log,
                columns=columns,
                arm_table=arm_table,
                link=link,
                loop=loop,
                options=options,
                hash_width=hash_width,
            )
        )
        return with_estimated_propensities(opened) if estimate_propensities else (opened, [])
