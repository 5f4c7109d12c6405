"""`glb evaluate`: what other policies would have earned, from a log, with a table, a page and a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.candidates import named_candidates
from glbandits.cli.evaluation_tables import estimates_table, learning_table, support_lines
from glbandits.cli.log_file import (
    FORMATS,
    LogFile,
    arm_embeddings,
    column_names,
    reward_range,
    said_as_options,
    with_estimated_propensities,
)
from glbandits.cli.progress import work_bar
from glbandits.cli.run_experiment import command_line
from glbandits.errors import look_up
from glbandits.evaluation import ESTIMATORS, Columns, Verdict
from glbandits.evaluation.learning_curve import Learn
from glbandits.experiments.evaluation_report import write_evaluation
from glbandits.experiments.log_study import Gate, LogStudy, Questions, study

WAYS: dict[str, Learn] = {"matched": "matched", "all": "all"}
EXIT_CODES = {Verdict.PROMOTE: 0, Verdict.KEEP: 10, Verdict.WAIT: 11}
"""Of `--promote-if-better`. An error is 2, and any other failure 1."""


def evaluate_command(
    log: Annotated[
        str, typer.Argument(help="A Parquet file or folder, CSV, an Open Bandit folder, dsjson, or a server's store.")
    ],
    policy: Annotated[
        list[str], typer.Option(help="A policy, with settings if you like: sgd-ts:step=0.5; or uniform; or arm:NAME.")
    ] = ["optimist", "uniform"],  # noqa: B006
    estimator: Annotated[list[str], typer.Option(help=f"One of {', '.join(ESTIMATORS)}.")] = ["snips", "dr"],  # noqa: B006
    select: Annotated[
        bool, typer.Option("--select", help="Have cross-validation choose one of the estimators, in a note.")
    ] = False,
    model: Annotated[list[Path], typer.Option(help="A saved Bandit, which is evaluated as it is, on all rows.")] = [],  # noqa: B006
    file_format: Annotated[
        str, typer.Option("--format", help="auto, parquet, csv, open-bandit, dsjson, store.")
    ] = "auto",
    loop: Annotated[str, typer.Option(help="A loop, if the log is the store of a server.")] = "default",
    arm: Annotated[str, typer.Option(help="The column with the name of the chosen arm.")] = "arm",
    reward: Annotated[str, typer.Option(help="The column with its reward.")] = "reward",
    propensity: Annotated[
        str, typer.Option(help="The column with the probability that the chosen arm had.")
    ] = "propensity",
    probabilities: Annotated[
        str, typer.Option(help="The column with the probabilities of all arms, or p_{arm}: one for each. '': none.")
    ] = "probabilities",
    context: Annotated[str, typer.Option(help="Columns with what was known of the row: age,country")] = "",
    per_arm: Annotated[str, typer.Option(help="Columns with a number for each arm: affinity_{arm}")] = "",
    arms: Annotated[str | None, typer.Option(help="The column with a list of the arms that the row had.")] = None,
    features: Annotated[str | None, typer.Option(help="The column with a list of numbers for each of them.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Rows with the same value here were decided together.")] = None,
    arm_table: Annotated[Path | None, typer.Option(help="A Parquet or CSV file with the features of each arm.")] = None,
    embedding: Annotated[str, typer.Option(help="For mips: columns of --arm-table with categories: kind,brand")] = "",
    link: Annotated[str | None, typer.Option(help="identity, logistic, probit or log; tells what rewards are.")] = None,
    estimate_propensities: Annotated[
        bool, typer.Option("--estimate-propensities", help="If nobody wrote down the propensities: guess them.")
    ] = False,
    train: Annotated[float, typer.Option(help="The share of rows that policies learn first.")] = 0.5,
    learn: Annotated[str, typer.Option(help="For learning curves: matched rows, or all.")] = "matched",
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    promote_if_better: Annotated[
        bool,
        typer.Option(
            "--promote-if-better",
            help="Say whether a policy should replace the one that wrote the log. "
            "The exit code is 0 for promote, 10 for keep, 11 for wait.",
        ),
    ] = False,
    alpha: Annotated[float, typer.Option(help="The probability of ever promoting a worse policy.")] = 0.05,
    margin: Annotated[float, typer.Option(help="The gain that makes a promotion worth the trouble.")] = 0.0,
    rewards: Annotated[
        str | None, typer.Option("--reward-range", help="Lowest and highest reward that there can be: -1,1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    out: Annotated[Path, typer.Option(help="The folder for the page and the results.")] = Path("out/evaluate"),
) -> None:
    """Estimate what policies would have earned, from a log of another's decisions.

    A policy that learns does so on the first rows, and is evaluated on the rest, learning no more. What needs no
    learning is evaluated on the same rows.
    """
    read = look_up("format", file_format, FORMATS)
    for name in estimator:
        look_up("estimator", name, ESTIMATORS)
    questions = Questions(
        estimators=tuple(estimator),
        select=select,
        train=train,
        level=level,
        reward_range=reward_range(rewards),
        learn=look_up("way to learn", learn, WAYS),
        gate=Gate(alpha=alpha, margin=margin) if promote_if_better else None,
        seed=seed,
    )
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
    console = Console(emoji=False)  # or the name of an arm, as in "arm:new:", becomes a picture
    notes: list[str] = []
    with said_as_options(), console.status("looking at the log"):
        opened = read(LogFile(address=log, columns=columns, arm_table=arm_table, link=link, loop=loop))
        if estimate_propensities:
            opened, notes = with_estimated_propensities(opened)
        rewards_link = next(iter(opened.blocks(1))).link
    horizon = max(1, round(train * len(opened)))
    candidates = named_candidates(policy, model, arm_names=opened.arm_names, link=rewards_link, horizon=horizon)
    with said_as_options(), work_bar(console) as bar:
        categories = arm_embeddings(arm_table, column_names(embedding))
        found = study(opened, candidates, questions, source=str(log), notes=notes, embeddings=categories, progress=bar)
    _print(console, found)
    page, record = write_evaluation(found, out, command_line())
    console.print(f"Page: {page}\nResults: {record}", soft_wrap=True, markup=False)
    if found.promotion is not None:
        raise typer.Exit(EXIT_CODES[found.promotion.verdict])


def _print(console: Console, found: LogStudy) -> None:
    console.print(estimates_table(found))
    for line in support_lines(found):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    curves = learning_table(found)
    if curves is not None:
        console.print(curves)
    if found.promotion is not None:
        console.print(str(found.promotion), soft_wrap=True, markup=False, highlight=False)
