"""`glb tune`: choose the settings of a policy on one part of a log, and evaluate the choice on another."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from glbandits.cli.candidates import PolicyOption, fit_notes, parse_learning_policy
from glbandits.cli.common_options import (
    JobsOption,
    LevelOption,
    LoopOption,
    OutOption,
    command_line,
    parse_jobs,
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
    PropensityOption,
    RewardOption,
    TimeOption,
    TrainOption,
)
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import warnings_printed, work_bar
from glbandits.common.errors import check_float, lookup
from glbandits.common.version import __version__
from glbandits.evaluation import tune
from glbandits.evaluation.estimators.estimator import DEFAULT_LEVEL
from glbandits.evaluation.learning.tune import CandidateResult, TuningVerdictKind
from glbandits.evaluation.logs.log_statistics import overlap_of
from glbandits.evaluation.report.record import write_json
from glbandits.evaluation.report.tuning_page import tuning_table, write_tuning_page
from glbandits.policies.agents import AgentFactory
from glbandits.policies.parsing import parse_grid, split_policy


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
    payoffs: PayoffsOption = None,
    train: TrainOption = 0.5,
    seeds: Annotated[int, typer.Option(help="Number of runs of each policy.")] = 3,
    learn: LearnOption = "matched",
    level: LevelOption = DEFAULT_LEVEL,
    jobs: JobsOption = "1",
    out: OutOption = Path("out/tune"),
) -> None:
    """Choose the settings of a policy from a log of another policy's decisions.

    Each setting plays the first part of the log, and starts untrained. The best setting and the untuned one then play
    the second part, which was not used for the choice, and the verdict says whether to replace the untuned one.
    """
    workers = parse_jobs(jobs)
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
            jobs=workers.jobs,
            engine=workers.engine,
            progress=lambda done, total: bar(f"{untuned.name} plays", done, total),
        )
    notes += fit_notes([policy])
    settings = tuple(values or untuned.grid)
    notes += [str(doubt) for doubt in tuned.doubts]
    print_table(console, tuning_table(tuned, settings, level))
    for note in notes:
        console.print(f"Note: {note}", soft_wrap=True, markup=False, highlight=False)
    verdict = tuned.verdict(level)
    chosen = _tuned(tuned.winner, settings) if verdict.kind is TuningVerdictKind.BETTER else {}
    command = "evaluate" if isinstance(untuned, AgentFactory) else "train"
    following = _next_command(command, options, policy, chosen)
    record = {
        "verdict": {"kind": verdict.kind, "sentence": verdict.sentence, "next": following},
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
    page = write_tuning_page(
        tuned, settings, out, source=log, level=level, following=following, command=command_line(), notes=notes
    )
    last = [f"Page: {page}", f"Results: {path}", f"Verdict: {verdict}", f"Next: {following}"]
    console.print("\n".join(last), soft_wrap=True, markup=False, highlight=False)


def _next_command(command: str, options: LogOptions, policy: str, chosen: dict[str, Any]) -> str:
    """Return the command that trains the policy with the chosen settings, or evaluates an agent, which has no file."""
    name, settings = split_policy(policy)
    text = ",".join(f"{key}={value}" for key, value in (settings | chosen).items())
    missing = ("propensity", "id", "cluster", "payoffs") if command == "train" else ()  # options of glb tune alone
    given = options.given(*missing)
    words = [word for group in given for word in group]
    return shlex.join(["glb", command, options.log, *words, "--policy", f"{name}:{text}".rstrip(":")])


def _record(played: CandidateResult, names: Sequence[str]) -> dict[str, Any]:
    return {
        "settings": _tuned(played, names),
        "value": played.value,
        "standard_error": played.standard_error,
        "effective_sample_size": min(curve.effective_sample_size for curve in played.curves),
    }


def _tuned(played: CandidateResult, names: Sequence[str]) -> dict[str, Any]:
    """The values that a candidate has for the tuned settings."""
    settings = played.policy.get_params()
    return {name: settings.get(name) for name in names}
