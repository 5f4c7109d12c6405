"""`glb evaluate`: estimate the reward of other policies from a log, with a table, a page and a JSON file."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import polars as pl
import typer
from rich.console import Console

from glbandits.bandit import Bandit
from glbandits.cli.candidates import (
    CandidatesOption,
    ModelsOption,
    features_of_models,
    fit_notes,
    parse_candidates,
    proposed_columns,
)
from glbandits.cli.common_options import (
    ExploreOption,
    JobsOption,
    LevelOption,
    LoopOption,
    OutOption,
    ReferenceOption,
    SeedOption,
    command_line,
    parse_jobs,
    prepare_out_folder,
)
from glbandits.cli.log_options import (
    LEARN_MODES,
    LINK_ADVICE,
    ArmOption,
    ArmsOption,
    ArmTableOption,
    ClusterOption,
    ContextOption,
    CrossesOption,
    FeaturesOption,
    IdOption,
    KindOption,
    LearnOption,
    LinkOption,
    LogArgument,
    LogOptions,
    PayoffsOption,
    PropensityOption,
    TimeOption,
    TrainOption,
    parse_range,
)
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import warnings_printed, work_bar
from glbandits.cli.slates import print_slates
from glbandits.common.errors import InvalidInput, check_float, lookup
from glbandits.evaluation import ESTIMATORS
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.evaluate_slates import SLATE_ESTIMATORS
from glbandits.evaluation.logs.payoffs import opened_log
from glbandits.evaluation.policy_comparison import ComparisonSettings, GateSettings, PolicyComparison, compare_policies
from glbandits.evaluation.promotion_result import Verdict
from glbandits.evaluation.readers.service_export import ServiceExport
from glbandits.evaluation.report import write_evaluation_report
from glbandits.evaluation.report.tables import (
    differences_table,
    estimates_table,
    learning_table,
    support_lines,
    verdict_table,
)

DEFAULT_ESTIMATORS = ("snips", "dr")
NOT_OF_SLATES = {
    *("reference", "cluster", "learn", "promote_if_better", "margin", "exploration", "explore"),
    *("payoff_range", "jobs", "out"),
}
ROUTER_COLUMNS = {"drawn", "models", "quality", "cost"}
"""Columns by which the log of a router is recognised."""
OF_ROUTERS = {"log", "policy", "budget", "level", "out"}
"""Options that the audit of a router has."""
EXIT_CODES = {Verdict.PROMOTE: 0, Verdict.KEEP: 10, Verdict.WAIT: 11}
"""The exit codes of `--promote-if-better`. An invalid input has 2, any other failure 1."""
PARTS = ".parts"
"""The folder with the finished parts of an evaluation, while it runs."""
MODEL_NOTE = "{} does not say which rows it learned: if it has learned from this log, its value is too high"


def evaluate_command(
    ctx: typer.Context,
    log: LogArgument,
    *,
    policy: CandidatesOption = [],  # noqa: B006
    model: ModelsOption = [],  # noqa: B006
    estimator: Annotated[
        list[str],
        typer.Option(
            help=f"One of {', '.join(ESTIMATORS)}; with --slate one of {', '.join(SLATE_ESTIMATORS)}. Repeat for more.",
            show_default="snips, dr; with --slate all",
        ),
    ] = [],  # noqa: B006
    reference: ReferenceOption = None,
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: Annotated[
        list[str],
        typer.Option(
            help="Column with the reward of the chosen arm. Repeat for more: policies learn the first, and are "
            "evaluated by all. --link and --promote-if-better apply to the first."
        ),
    ] = ["reward"],  # noqa: B006
    link: LinkOption = None,
    propensity: PropensityOption = None,
    context: ContextOption = [],  # noqa: B006
    arms: ArmsOption = None,
    features: FeaturesOption = None,
    cluster: ClusterOption = None,
    slate: Annotated[
        str | None,
        typer.Option(
            help="Column of the slate; event_id in an export. Rows with the same value are its slots, in the order in "
            "which they were filled, and the estimates are those of the sum of their rewards."
        ),
    ] = None,
    time: TimeOption = None,
    id: IdOption = None,  # noqa: A002  (the name of the option)
    arm_table: ArmTableOption = None,
    kind: KindOption = [],  # noqa: B006
    crosses: CrossesOption = [],  # noqa: B006
    payoffs: PayoffsOption = None,
    train: TrainOption = 0.5,
    learn: LearnOption = "matched",
    level: LevelOption = DEFAULT_LEVEL,
    promote_if_better: Annotated[
        bool,
        typer.Option(
            "--promote-if-better",
            help="Decide whether a policy should replace the logging policy; at most 1 - level is the probability of "
            "promoting a worse one. The exit code is 0 for promote, 10 for keep, 11 for wait.",
        ),
    ] = False,
    margin: Annotated[
        float,
        typer.Option(
            help="With --promote-if-better: a gain that is too small to wait for. The verdict is keep if no gain can "
            "exceed it, unless a gain is shown to be above 0."
        ),
    ] = 0.0,
    exploration: Annotated[
        float | None,
        typer.Option(
            help="The share of random decisions, whichever policy runs. Default: that of the service's loop, or 0."
        ),
    ] = None,
    explore: ExploreOption = None,
    reward_range: Annotated[
        list[str],
        typer.Option(
            help="The lowest and the highest possible reward: -1,1. Repeat for more rewards, in their order. Default: "
            "that of the service's loop, or the link."
        ),
    ] = [],  # noqa: B006
    payoff_range: Annotated[
        str | None,
        typer.Option(
            help="The lowest and the highest possible payoff: -1,20. For intervals at every n and --promote-if-better, "
            "if the rows of the log have values and costs. Default: that of the table of --payoffs."
        ),
    ] = None,
    budget: Annotated[
        list[str],
        typer.Option(
            metavar="COSTS",
            help="Audit the log of a router for language models: mean costs of a decision, 0.2,0.3. May be repeated. "
            "--policy mix:A,B,0.3 then sends a share of 0.3 to model B, and all others to A.",
        ),
    ] = [],  # noqa: B006
    seed: SeedOption = 0,
    jobs: JobsOption = "1",
    out: OutOption = Path("out/evaluate"),
) -> None:
    """Estimate the mean reward of policies from a log of another policy's decisions.

    A policy learns the first rows and is evaluated on the rest, where it does not learn. `uniform`, `arm:NAME` (always
    this arm) and `column:NAME` (the arm that another system would have chosen, in a column of the log) are evaluated
    on the same rows, saved models (--model) on all rows. In rows that do not offer the arm, the last two decide as the
    logging policy did. Without --policy, `optimist` and `uniform` are evaluated; on the log of a
    service, its running policy with its settings and `uniform`.

    The log of a router for language models gets an audit of quality and cost.
    """
    console = Console(emoji=False)  # an arm named ":new:" is not an emoji
    if budget or _is_router_log(Path(log)):
        from glbandits.cli.router_audit import print_audit  # other logs need none of it

        _check_unused(ctx, "the audit of a router", ctx.params.keys() - OF_ROUTERS)
        print_audit(log, budget, policy, level=level, out=out, console=console)
        return
    if slate is not None:
        _check_unused(ctx, "an evaluation of slates", NOT_OF_SLATES)
    workers = parse_jobs(jobs)
    known: Mapping[str, object] = ESTIMATORS if slate is None else SLATE_ESTIMATORS
    for name in estimator:
        lookup("estimator" if slate is None else "estimator of slates", name, known)
    if len(set(reward)) < len(reward):
        raise InvalidInput(f"each reward can be named once; got {', '.join(reward)}", field="reward")
    if len(reward_range) > len(reward):
        raise InvalidInput(
            f"each reward has one range; got {len(reward_range)} ranges for {', '.join(reward)}", field="reward_range"
        )
    if payoffs and len(reward) > 1:
        raise InvalidInput(
            f"--payoffs needs one reward, whose value it gives; got {', '.join(reward)}. Name one", field="reward"
        )
    check_float("level", level, above=0.0, at_most=1.0)
    if promote_if_better:
        check_float("level", level, at_least=0.5, at_most=1.0 - 1e-9)
    ranges = dict(zip(reward, map(parse_range, reward_range), strict=False))
    settings = ComparisonSettings(
        estimators=tuple(estimator) or DEFAULT_ESTIMATORS,
        train=train,
        level=level,
        reward_range=ranges.get(reward[0]),
        payoff_range=None if payoff_range is None else parse_range(payoff_range, "--payoff-range"),
        other_ranges={name: ranges[name] for name in reward[1:] if name in ranges},
        reference=reference,
        learn=lookup("way to learn", learn, LEARN_MODES),
        exploration=exploration or 0.0,
        explore=explore is not False,
        gate=GateSettings(alpha=round(1.0 - level, 12), margin=margin) if promote_if_better else None,
        seed=seed,
    )
    settings_of_models, proposed = features_of_models(model), proposed_columns(policy)
    options = LogOptions(
        log=log,
        reward=reward[0],
        link=link,
        loop=loop,
        arm=arm,
        propensity=propensity,
        context=context,
        arms=arms,
        features=features,
        cluster=slate or cluster,
        time=time,
        id=id,
        arm_table=arm_table,
        kind=kind,
        crosses=crosses,
        payoffs=payoffs,
    )
    first, *others = reward
    rows, notes = options.open(
        console, settings_of_models, proposed=proposed, has_range=first in ranges, other_rewards=tuple(others)
    )
    for name in others:
        if rows.schema.other_rewards[name] == "logistic":
            own_range = "" if name in ranges else " and their range 0 to 1"
            notes.append(f"{name}: rewards are 0 or 1, so the link is logistic{own_range}")
    policies = policy or ["optimist", "uniform"]
    opened = opened_log(rows)
    running = opened.running if isinstance(opened, ServiceExport) else None
    if running is not None:
        policies = policy or list(dict.fromkeys([running.text, "uniform"]))
        settings = replace(
            settings,
            exploration=running.exploration if exploration is None else exploration,
            reward_range=settings.reward_range or running.reward_range,
        )
        notes.append(
            f"the loop runs {running.text} with the {running.link} link and exploration {running.exploration:g}"
        )
    notes += fit_notes(policies)
    candidates = parse_candidates(policies, model, rows, train_share=train)
    notes += [
        MODEL_NOTE.format(label)
        for label, each in candidates.items()
        if isinstance(each, Bandit) and each.training is None
    ]
    if slate is not None:
        with warnings_printed(console):
            print_slates(console, rows, candidates, estimator, notes, settings)
        return
    notes = [note for note in notes if LINK_ADVICE not in note]  # evaluations have it too
    with work_bar(console) as bar, warnings_printed(console):
        comparison = compare_policies(
            rows,
            candidates,
            settings,
            source=log,
            reward=first if others else None,
            other_rewards=others,
            jobs=workers.jobs,
            engine=workers.engine,
            resume=out / PARTS,
            progress=bar,
        )
    groups = None
    if isinstance(opened, ServiceExport):
        from glbandits.service.export.unit_comparison import compare_groups  # most logs need none of the service

        groups = compare_groups(opened.folder)
    comparison = replace(comparison, notes=tuple(notes), groups=groups)
    print_table(console, verdict_table(comparison))
    for each in (comparison, *comparison.other_rewards):
        _print(console, each)
    if comparison.groups is not None:
        print_table(console, comparison.groups.table)
        console.print("\n".join(comparison.groups.sentences), soft_wrap=True, markup=False, highlight=False)
    rmtree(out / PARTS, ignore_errors=True)
    prepare_out_folder(out)
    page, record = write_evaluation_report(comparison, out, command_line())
    console.print(f"Page: {page}\nResults: {record}", soft_wrap=True, markup=False)
    console.print("\n".join(["Verdict:", *comparison.verdict]), soft_wrap=True, markup=False, highlight=False)
    if comparison.promotion is not None:
        raise typer.Exit(EXIT_CODES[comparison.promotion.verdict])


def _is_router_log(path: Path) -> bool:
    """Whether a path is the log of a `PromptRouter`, by the columns of its first file."""
    first = path if path.is_file() else next(path.glob("*.parquet"), None)
    try:
        return first is not None and pl.read_parquet_schema(first).keys() >= ROUTER_COLUMNS
    except (OSError, pl.exceptions.PolarsError):
        return False


def _check_unused(ctx: typer.Context, what: str, unused: Collection[str]) -> None:
    """Raise InvalidInput if the command line has an option without effect."""
    for name in sorted(unused):
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(f"{what} has no option --{name.replace('_', '-')}. Leave it out", field=name)


def _print(console: Console, comparison: PolicyComparison) -> None:
    print_table(console, estimates_table(comparison))
    if comparison.differences:
        print_table(console, differences_table(comparison))
    for line in support_lines(comparison):
        console.print(line, soft_wrap=True, markup=False, highlight=False)
    curves = learning_table(comparison)
    if curves.rows:
        print_table(console, curves)
    if comparison.promotion is not None:
        console.print(str(comparison.promotion), soft_wrap=True, markup=False, highlight=False)
