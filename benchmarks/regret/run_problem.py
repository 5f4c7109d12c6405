"""One problem: time every policy, give it its effort, and play the fresh protocol."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from joblib import cpu_count

from benchmarks.regret.contestants import FULL, LESS, SUBJECT, Effort, contestant, typical
from benchmarks.regret.problems import Problem
from benchmarks.regret.results import Player, ProblemResult
from benchmarks.regret.timings import Timings
from glbandits.environments import Environment
from glbandits.errors import InvalidInput
from glbandits.experiments.experiment import Experiment, PolicyEntry
from glbandits.experiments.outcomes import FRESH, Outcome
from glbandits.experiments.protocols import ExperimentRunner
from glbandits.experiments.result_store import ResultStore
from glbandits.policies import POLICIES

SLOW, TOO_SLOW = 0.05, 1.0
"""Seconds of a run above which less is done for a policy, and above which nothing."""

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Scope:
    """Who plays, how often, and where it is kept."""

    folder: Path
    policies: Sequence[str] = tuple(POLICIES)
    full: Effort = FULL
    less: Effort = LESS
    jobs: int = -1


@dataclass
class _Entries:
    """Who plays with which effort, and who does not."""

    full: list[PolicyEntry] = field(default_factory=list)
    less: list[PolicyEntry] = field(default_factory=list)
    absent: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    """What it will take, on one core."""


def play(problem: Problem, scope: Scope, progress: Progress) -> ProblemResult:
    """Run what is missing of a problem."""
    environment = problem.build(scope.folder)
    horizon = problem.horizon(environment)
    entries = _entries(problem, environment, horizon, scope, progress)
    cores = cpu_count() if scope.jobs == -1 else scope.jobs
    about = f"~{entries.seconds / cores / 60:.0f} min in all"
    runner = ExperimentRunner(
        ResultStore(scope.folder / "store"),
        jobs=scope.jobs,
        progress=lambda what, done, total: progress(f"{problem.name}: {what}, {about}", done, total),
    )
    players = []
    for effort, contestants in ((scope.full, entries.full), (scope.less, entries.less)):
        if contestants:
            experiment = Experiment(
                name=problem.name,
                title=problem.words,
                environment=environment,
                horizon=horizon,
                entries=contestants,
                repeats=effort.tuning,
                fresh=effort.fresh,
            )
            outcomes = runner.run([experiment], [FRESH])[0].protocols[0].outcomes
            players += [_player(outcome, len(effort.tuning)) for outcome in outcomes]
    return ProblemResult(problem.name, problem.words, horizon, environment.dim, tuple(players), tuple(entries.absent))


def _entries(problem: Problem, environment: Environment, horizon: int, scope: Scope, progress: Progress) -> _Entries:
    entries, timings = _Entries(), Timings(scope.folder / "timings.json")
    for done, name in enumerate(scope.policies):
        progress(f"{problem.name}: timing {name}", done, len(scope.policies))
        try:
            one = contestant(name, environment, problem.link, horizon, scope.full.grid)
            one.settings()
            timing = timings.measure(typical(one), environment, horizon, TOO_SLOW)
        except InvalidInput as refusal:
            entries.absent.append((name, f"refused: {refusal}"))
            continue
        if timing.seconds > TOO_SLOW and name != SUBJECT:
            took = f"{timing.seconds:.1f} s for {timing.rounds} of {horizon} rounds"
            entries.absent.append((name, f"over {TOO_SLOW:g} s a run: {took}"))
            continue
        slow = timing.seconds > SLOW
        effort = scope.less if slow else scope.full
        if slow:
            one = replace(one, grid=contestant(name, environment, problem.link, horizon, effort.grid).grid)
        (entries.less if slow else entries.full).append(one)
        runs = len(one.settings()) * len(effort.tuning) + len(effort.fresh)
        entries.seconds += timing.seconds * runs
    return entries


def _player(outcome: Outcome, tuning: int) -> Player:
    return Player(
        label=outcome.label,
        chosen=outcome.chosen if outcome.tried > 1 else "default",
        tried=outcome.tried,
        tuning=tuning,
        seeds=outcome.seeds,
        final=outcome.final,
        seconds=float(outcome.seconds.mean()),
    )
