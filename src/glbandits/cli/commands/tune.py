"""`glb tune`: choose the settings of a policy on one part of a log, and evaluate the choice on another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from glbandits.cli.candidates import PolicyOption, fit_notes, parse_learning_policy
from glbandits.cli.common_options import (
    EngineOption,
    JobsOption,
    LevelOption,
    LoopOption,
    OutOption,
    command_line,
    prepare_out_folder,
)
from glbandits.cli.log_options import (
    LEARN_MODES,
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
    PerArmBlockOption,
    PropensityOption,
    RewardOption,
    TimeOption,
    TrainOption,
)
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import warnings_printed, work_bar
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.text_format import format_interval, format_value
from glbandits.common.errors import check_float, lookup
from glbandits.common.parallel import check_engine
from glbandits.common.version import __version__
from glbandits.evaluation import overlap_of, tune
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.learning.tune import CandidateResult, TuningResult
from glbandits.evaluation.report.record import write_json
from glbandits.policies.parsing import parse_grid


def tune_command(
    log: LogArgument,
    *,
    policy: PolicyOption = "optimist",
    grid: Annotated[
        list[str],
        typer.Option(help="Values to try: floor=0.01,0.05. Repeat for other settings. Default: the policy's grid."),
    ] = [],  # noqa: B006
    loop: LoopOption = "default",
    arm: ArmOption = "arm",
    reward: RewardOption = "reward",
    link: LinkOption = None,
    propensity: PropensityOption = None,
    context: ContextOption = [],  # noqa: B006
    arms: ArmsOption = None,
    features: FeaturesOption = None,
    cluster: ClusterOption = None,
    time: TimeOption = None,
    id: IdOption = None,  # noqa: A002  (the name of the option)
    arm_table: ArmTableOption = None,
    kind: KindOption = [],  # noqa: B006
    crosses: CrossesOption = [],  # noqa: B006
    per_arm_block: PerArmBlockOption = False,
    payoffs: PayoffsOption = None,
    train: TrainOption = 0.5,
    seeds: Annotated[int, typer.Option(help="Number of runs of each policy.")] = 3,
    learn: LearnOption = "matched",
    level: LevelOption = DEFAULT_LEVEL,
    jobs: JobsOption = 1,
    engine: EngineOption = "local",
    out: OutOption = Path("out/tune"),
) -> None:
    """Choose the settings of a policy from a log of another policy's decisions.

    Each setting plays the first part of the log, and starts untrained. The best setting and the untuned one then play
    the second part, which was not used for the choice.
    """
    check_engine(engine, jobs)
    learn_mode = lookup("way to learn", learn, LEARN_MODES)
    level = check_float("level", level, above=0, at_most=1 - 1e-9)
    values = parse_grid(grid)
    console = Console(emoji=False)
    options = LogOptions(
        log=log,
        loop=loop,
        arm=arm,
        reward=reward,
        link=link,
        propensity=propensity,
        context=context,
        arms=arms,
        features=features,
        cluster=cluster,
        time=time,
        id=id,
        arm_table=arm_table,
        kind=kind,
        crosses=crosses,
        per_arm_block=per_arm_block,
        payoffs=payoffs,
    )
    opened, notes = options.open(console)
    learned_share = overlap_of(opened).least if learn_mode == "matched" else 1.0  # of the rows that are played
    untuned = parse_learning_policy(policy, opened, train_share=train * learned_share)
    prepare_out_folder(out)
    with work_bar(console) as bar, warnings_printed(console) as printed:
        bar(f"{untuned.name} plays", 0, 1)
        tuned = tune(
            untuned,
            opened,
            grid=values or None,
            share=train,
            seeds=seeds,
            learn=learn_mode,
            jobs=jobs,
            engine=engine,
            progress=lambda done, total: bar(f"{untuned.name} plays", done, total),
        )
    notes += fit_notes([policy])
    settings = tuple(values or untuned.grid)
    print_table(console, _table(tuned, settings, level))
    for note in notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    record = {
        "made_by": f"glbandits {__version__}",
        "command": command_line(),
        "log": log,
        "policy": policy,
        "rows": tuned.rows,
        "unit": tuned.unit,
        "candidates": [_record(played, settings) for played in tuned.candidates],
        "chosen": _record(tuned.winner, settings),
        "untuned": _record(tuned.default, settings),
        "gain": tuned.gain,
        "gain_standard_error": tuned.gain_standard_error,
        "gain_interval": tuned.gain_interval(level),
        "level": level,
        "notes": [*notes, *printed],
    }
    path = write_json(out / "tune.json", record)
    console.print(f"Results: {path}", soft_wrap=True, markup=False)


def _table(tuned: TuningResult, settings: Sequence[str], level: float) -> DataTable:
    first, second = tuned.rows
    title = f"Mean {tuned.unit} per decision of {tuned.best.name} while learning"
    title += f"; part 1: {first:,} rows, part 2: {second:,}"
    columns = (
        "part",
        "setting",
        f"mean {tuned.unit}",
        "standard error",
        "gain over untuned",
        f"{percent(level)} interval",
    )
    rows = []
    for index, played in enumerate(tuned.candidates):
        label = f"{_label(played, settings)}{', untuned' * (index == 0)}"
        rows.append(["1", label, format_value(played.value), format_value(played.standard_error)])
    gain = [format_value(tuned.gain, sign=True), format_interval(tuned.gain_interval(level))]
    for played, role, cells in ((tuned.winner, "the best", gain), (tuned.default, "untuned", [])):
        label = f"{_label(played, settings)}, {role}"
        rows.append(["2", label, format_value(played.value), format_value(played.standard_error), *cells])
    return DataTable(columns, rows, columns[:2], title)


def _record(played: CandidateResult, names: Sequence[str]) -> dict[str, Any]:
    return {
        "settings": _tuned(played, names),
        "value": played.value,
        "standard_error": played.standard_error,
        "effective_sample_size": min(curve.effective_sample_size for curve in played.curves),
    }


def _label(played: CandidateResult, names: Sequence[str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in _tuned(played, names).items())


def _tuned(played: CandidateResult, names: Sequence[str]) -> dict[str, Any]:
    """The values that a candidate has for the tuned settings."""
    settings = played.policy.get_params()
    return {name: settings.get(name) for name in names}
