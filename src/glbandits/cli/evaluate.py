"""`glb evaluate`: what other policies would have earned, from a log, with a table, a page and a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.candidates import features_of_models, named_candidates
from glbandits.cli.evaluation_tables import estimates_table, learning_table, support_lines
from glbandits.cli.log_file import arm_embeddings, column_names, feature_options, reward_range, said_as_options
from glbandits.cli.log_options import (
    WAYS,
    ArmOption,
    ArmsOption,
    ArmTableOption,
    BlockOption,
    ClusterOption,
    ContextOption,
    CrossesOption,
    EngineOption,
    EstimateOption,
    FeaturesOption,
    FormatOption,
    HashWidthOption,
    JobsOption,
    KindOption,
    LearnOption,
    LinkOption,
    LogArgument,
    LoopOption,
    MissingOption,
    PerArmOption,
    ProbabilitiesOption,
    PropensityOption,
    RewardOption,
    SparseOption,
    opened_log,
)
from glbandits.cli.progress import warnings_printed, work_bar
from glbandits.cli.run_experiment import command_line
from glbandits.errors import lookup
from glbandits.evaluation import ESTIMATORS, Verdict
from glbandits.evaluation.policy_comparison import ComparisonSettings, Gate, PolicyComparison, compare_policies
from glbandits.parallel import check_engine
from glbandits.reports.evaluation_report import write_evaluation_report

EXIT_CODES = {Verdict.PROMOTE: 0, Verdict.KEEP: 10, Verdict.WAIT: 11}
"""Of `--promote-if-better`. An error is 2, and any other failure 1."""


def evaluate_command(
    log: LogArgument,
    policy: Annotated[
        list[str], typer.Option(help="A policy, with settings if you like: sgd-ts:step=0.5; or uniform; or arm:NAME.")
    ] = ["optimist", "uniform"],  # noqa: B006
    estimator: Annotated[list[str], typer.Option(help=f"One of {', '.join(ESTIMATORS)}.")] = ["snips", "dr"],  # noqa: B006
    select: Annotated[
        bool, typer.Option("--select", help="Have cross-validation choose one of the estimators, in a note.")
    ] = False,
    model: Annotated[list[Path], typer.Option(help="A saved Bandit, which is evaluated as it is, on all rows.")] = [],  # noqa: B006
    file_format: FormatOption = "auto",
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: RewardOption = "reward",
    propensity: PropensityOption = "propensity",
    probabilities: ProbabilitiesOption = "probabilities",
    context: ContextOption = "",
    per_arm: PerArmOption = "",
    arms: ArmsOption = None,
    features: FeaturesOption = None,
    cluster: ClusterOption = None,
    arm_table: ArmTableOption = None,
    embedding: Annotated[str, typer.Option(help="For mips: columns of --arm-table with categories: kind,brand")] = "",
    link: LinkOption = None,
    kind: KindOption = [],  # noqa: B006
    missing: MissingOption = None,
    crosses: CrossesOption = None,
    per_arm_block: BlockOption = False,
    sparse: SparseOption = None,
    hash_width: HashWidthOption = None,
    estimate_propensities: EstimateOption = False,
    train: Annotated[float, typer.Option(help="The share of rows that policies learn first.")] = 0.5,
    learn: LearnOption = "matched",
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
    exploration: Annotated[
        float,
        typer.Option(help="With --promote-if-better: the share of decisions that are made at random."),
    ] = 0.0,
    rewards: Annotated[
        str | None, typer.Option("--reward-range", help="Lowest and highest reward that there can be: -1,1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    jobs: JobsOption = 1,
    engine: EngineOption = "local",
    out: Annotated[Path, typer.Option(help="The folder for the page and the results.")] = Path("out/evaluate"),
) -> None:
    """Estimate what policies would have earned, from a log of another's decisions.

    A policy that learns does so on the first rows, and is evaluated on the rest, learning no more. What needs no
    learning is evaluated on the same rows.
    """
    check_engine(engine, jobs)
    for name in estimator:
        lookup("estimator", name, ESTIMATORS)
    questions = ComparisonSettings(
        estimators=tuple(estimator),
        select=select,
        train=train,
        level=level,
        reward_range=reward_range(rewards),
        learn=lookup("way to learn", learn, WAYS),
        gate=Gate(alpha=alpha, margin=margin, exploration=exploration) if promote_if_better else None,
        seed=seed,
    )
    console = Console(emoji=False)  # or the name of an arm, as in "arm:new:", becomes a picture
    opened, notes = opened_log(
        console,
        log=log,
        file_format=file_format,
        loop=loop,
        arm=arm,
        reward=reward,
        propensity=propensity,
        probabilities=probabilities,
        context=context,
        per_arm=per_arm,
        arms=arms,
        features=features,
        cluster=cluster,
        arm_table=arm_table,
        link=link,
        estimate_propensities=estimate_propensities,
        options=feature_options(kind, missing, crosses, per_arm_block, sparse) | features_of_models(model),
        hash_width=hash_width,
    )
    rewards_link = next(iter(opened.blocks(1))).link
    horizon = max(1, round(train * len(opened)))
    candidates = named_candidates(policy, model, arm_names=opened.arm_names, link=rewards_link, horizon=horizon)
    with said_as_options(), work_bar(console) as bar, warnings_printed(console):
        categories = arm_embeddings(arm_table, column_names(embedding))
        found = compare_policies(
            opened,
            candidates,
            questions,
            source=str(log),
            notes=notes,
            embeddings=categories,
            jobs=jobs,
            engine=engine,
            progress=bar,
        )
    _print(console, found)
    page, record = write_evaluation_report(found, out, command_line())
    console.print(f"Page: {page}\nResults: {record}", soft_wrap=True, markup=False)
    if found.promotion is not None:
        raise typer.Exit(EXIT_CODES[found.promotion.verdict])


def _print(console: Console, found: PolicyComparison) -> None:
    console.print(estimates_table(found))
    for line in support_lines(found):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    curves = learning_table(found)
    if curves is not None:
        console.print(curves)
    if found.promotion is not None:
        console.print(str(found.promotion), soft_wrap=True, markup=False, highlight=False)
