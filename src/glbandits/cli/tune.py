"""`glb tune`: the best settings of a policy that learns, chosen on one part of a log and judged on another."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glbandits.cli.log_file import feature_options, said_as_options
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
from glbandits.cli.policy_text import parse_grid, parse_policy
from glbandits.cli.progress import warnings_printed, work_bar
from glbandits.cli.run_experiment import command_line
from glbandits.errors import check_float, lookup
from glbandits.evaluation import tune
from glbandits.evaluation.replay.tune import CandidateResult, TuningResult
from glbandits.parallel import check_engine
from glbandits.reports.evaluation_report.estimate_rows import format_interval, format_value
from glbandits.reports.evaluation_report.record import write_json
from glbandits.version import __version__


def tune_command(
    log: LogArgument,
    policy: Annotated[
        str, typer.Option(help="The policy, with the untuned settings: optimist:floor=0.05")
    ] = "optimist",
    grid: Annotated[
        list[str],
        typer.Option(help="Values to try: floor=0.01,0.05. Repeat for other settings. Default: its own grid."),
    ] = [],  # noqa: B006
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
    link: LinkOption = None,
    kind: KindOption = [],  # noqa: B006
    missing: MissingOption = None,
    crosses: CrossesOption = None,
    per_arm_block: BlockOption = False,
    sparse: SparseOption = None,
    hash_width: HashWidthOption = None,
    estimate_propensities: EstimateOption = False,
    share: Annotated[float, typer.Option(help="The share of rows on which settings are chosen.")] = 0.5,
    seeds: Annotated[int, typer.Option(help="How many times each setting is played.")] = 3,
    learn: LearnOption = "matched",
    level: Annotated[float, typer.Option(help="Of the interval of the gain.")] = 0.95,
    jobs: JobsOption = 1,
    engine: EngineOption = "local",
    out: Annotated[Path, typer.Option(help="The JSON file for the results.")] = Path("out/tune.json"),
) -> None:
    """Choose the settings of a policy that learns, from a log of another's decisions.

    Each setting plays the first part of the log, from knowing nothing. The best one and the untuned one then play the
    second part, which had no say in the choice.
    """
    check_engine(engine, jobs)
    way, level = lookup("way to learn", learn, WAYS), check_float("level", level, above=0, at_most=1 - 1e-9)
    values = parse_grid(grid)
    console = Console(emoji=False)
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
        options=feature_options(kind, missing, crosses, per_arm_block, sparse),
        hash_width=hash_width,
    )
    untuned = parse_policy(policy, link=next(iter(opened.blocks(1))).link, horizon=max(1, round(share * len(opened))))
    with said_as_options(), work_bar(console) as bar, warnings_printed(console) as warned:
        bar(f"{untuned.name} plays (compiling, if this is the first run)", 0, 1)
        found = tune(
            untuned,
            opened,
            grid=values or None,
            share=share,
            seeds=seeds,
            learn=way,
            jobs=jobs,
            engine=engine,
            progress=lambda done, total: bar(f"{untuned.name} plays", done, total),
        )
    names = tuple(values or untuned.grid)
    _print(console, found, names, level)
    for note in notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    record = {
        "made_by": f"glbandits {__version__}",
        "command": command_line(),
        "log": log,
        "policy": policy,
        "rows": found.rows,
        "candidates": [_played(one, names) for one in found.candidates],
        "chosen": _played(found.winner, names),
        "untuned": _played(found.default, names),
        "gain": found.gain,
        "gain_standard_error": found.gain_standard_error,
        "gain_interval": found.gain_interval(level),
        "level": level,
        "notes": [*notes, *warned],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    console.print(f"Results: {write_json(out, record)}", soft_wrap=True, markup=False)


def _print(console: Console, found: TuningResult, names: Iterable[str], level: float) -> None:
    first, second = found.rows
    title = f"Mean reward of a decision of {found.best.name} while learning; part 1: {first:,} rows, part 2: {second:,}"
    table = Table(title=title, title_justify="left")
    columns = ("part", "setting", "mean reward", "standard error", "more than untuned", f"{level:.0%} interval")
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:2] else "right", overflow="fold")
    for index, one in enumerate(found.candidates):
        label = f"{_label(one, names)}{', untuned' * (index == 0)}"
        table.add_row("1", escape(label), format_value(one.value), format_value(one.standard_error))
    table.add_section()
    gain, interval = format_value(found.gain, sign=True), format_interval(found.gain_interval(level))
    for one, label, more in ((found.winner, "the best", [gain, interval]), (found.default, "untuned", [])):
        row = [f"{_label(one, names)}, {label}", format_value(one.value), format_value(one.standard_error), *more]
        table.add_row("2", *map(escape, row))
    console.print(table)


def _settings(played: CandidateResult, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(played.policy, name) for name in names}


def _label(played: CandidateResult, names: Iterable[str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in _settings(played, names).items())


def _played(played: CandidateResult, names: Iterable[str]) -> dict[str, Any]:
    return {
        "settings": _settings(played, names),
        "value": played.value,
        "standard_error": played.standard_error,
        "effective_sample_size": min(curve.effective_sample_size for curve in played.curves),
    }
