"""Running what is not yet in the store: on the cores of this machine, or on Ray."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from glbandits.environments import Environment
from glbandits.experiments.progress import Progress, no_progress
from glbandits.experiments.result_store import FinishedRun, ResultStore
from glbandits.experiments.run_spec import RunSpec
from glbandits.parallel import check_engine, in_processes, run_parallel
from glbandits.policy import Policy
from glbandits.simulation import play_together, prepare, recorded_rounds

POINTS = 200
"""Rounds at which a run's regret is recorded."""
TASK_SECONDS = 1.0
"""Runs go to a worker in tasks of about this many seconds; a killed command loses the tasks that had not finished."""
OVERHEAD = 0.001
"""Seconds of a run that its policy does not spend."""


class RunKind(NamedTuple):
    """Runs of one kind cost about the same."""

    policy: type[Policy]
    keeps_history: bool
    environment: str
    horizon: int


class Workload:
    """Planned and finished runs, in CPU seconds: measured for kinds that have finished runs, guessed for others."""

    def __init__(self, specs: Iterable[RunSpec]) -> None:
        self._planned = Counter(map(self.kind, {spec.key: spec for spec in specs}.values()))
        self._finished: Counter[RunKind] = Counter()
        self._measured: dict[RunKind, tuple[float, int]] = {}

    @staticmethod
    def kind(spec: RunSpec) -> RunKind:
        """What the cost of a run depends on."""
        return RunKind(type(spec.policy), spec.policy.keeps_history, spec.problem.fingerprint, spec.horizon)

    def finish(self, spec: RunSpec, run: FinishedRun) -> None:
        """Count a run that has finished."""
        self._finished[self.kind(spec)] += 1
        self._measure(spec, run)

    def skip(self, spec: RunSpec, run: FinishedRun) -> None:
        """Take a planned run off the plan, because the store has it; its seconds still help to estimate others."""
        self._planned[self.kind(spec)] -= 1
        self._measure(spec, run)

    def _measure(self, spec: RunSpec, run: FinishedRun) -> None:
        seconds, many = self._measured.get(self.kind(spec), (0.0, 0))
        self._measured[self.kind(spec)] = (seconds + run.seconds + OVERHEAD, many + 1)

    def seconds(self, kind: RunKind) -> float:
        """Expected CPU seconds of a run."""
        if kind in self._measured:
            seconds, many = self._measured[kind]
            return seconds / many
        thousands = kind.horizon / 1000
        return OVERHEAD + (0.03 if kind.keeps_history else 0.001) * thousands

    @property
    def done(self) -> float:
        """CPU seconds of the finished runs."""
        return sum(self._finished[kind] * self.seconds(kind) for kind in self._planned)

    @property
    def total(self) -> float:
        """CPU seconds of all planned runs."""
        return sum(max(many, self._finished[kind]) * self.seconds(kind) for kind, many in self._planned.items())


@dataclass(frozen=True)
class Task:
    """Policies that play the same rounds, in one worker."""

    specs: tuple[RunSpec, ...]
    seconds: float
    """Expected CPU seconds."""


def run_missing(
    specs: Iterable[RunSpec],
    store: ResultStore,
    *,
    jobs: int = -1,
    engine: str = "local",
    progress: Progress = no_progress,
    workload: Workload | None = None,
) -> None:
    """Run what the store does not have, and add each task's runs to the store when the task finishes.

    `progress` receives the CPU seconds done and in all. A `workload` that plans more than these runs, because others
    follow, makes that estimate one of all of them.
    """
    check_engine(engine, jobs)
    unique = {spec.key: spec for spec in specs}
    workload = Workload(unique.values()) if workload is None else workload
    missing = store.missing(unique.values())
    for spec in unique.values():
        if spec in store:
            workload.skip(spec, store[spec])
    progress("playing", workload.done, workload.total)
    if not missing:
        return
    compile_policies(missing, jobs=jobs)
    cut = tasks(missing, workload)
    for index, finished in run_parallel(play_task, cut, jobs=jobs, engine=engine):
        task = cut[index]
        runs = list(zip(task.specs, finished, strict=True))
        store.add(runs)
        for spec, result in runs:
            workload.finish(spec, result)
        progress(f"playing {task.specs[-1].policy.name}", workload.done, workload.total)


def tasks(specs: Sequence[RunSpec], workload: Workload) -> list[Task]:
    """Cut the work into tasks: first one of each kind of run, to measure it, then the longest first."""

    def rounds_of(spec: RunSpec) -> tuple[str, int, int]:
        return spec.problem.fingerprint, spec.horizon, spec.seed

    def seconds(spec: RunSpec) -> float:
        return workload.seconds(workload.kind(spec))

    cut: list[Task] = []
    for _, group in groupby(sorted(specs, key=rounds_of), key=rounds_of):
        part, length = list[RunSpec](), 0.0
        for spec in sorted(group, key=seconds):
            if part and length + seconds(spec) > TASK_SECONDS:
                cut.append(Task(tuple(part), length))
                part, length = [], 0.0
            part.append(spec)
            length += seconds(spec)
        cut.append(Task(tuple(part), length))
    longest_first = sorted(cut, key=lambda task: -task.seconds)
    seen, first, later = set[RunKind](), list[Task](), list[Task]()
    for task in longest_first:
        kinds = set(map(workload.kind, task.specs))
        (later if kinds <= seen else first).append(task)
        seen |= kinds
    return first + later


def play_task(task: Task) -> list[FinishedRun]:
    """Play all runs of a task, in whatever process this is."""
    first = task.specs[0]
    rounds = recorded_rounds(first.horizon, POINTS)
    policies = [spec.policy for spec in task.specs]
    lucks = [spec.luck for spec in task.specs]
    runs = play_together(policies, first.environment, first.horizon, first.seed, rounds, lucks=lucks, keep_choices=True)
    return [
        FinishedRun(run.seconds, rounds, run.regret, np.bincount(run.choices))  # type: ignore[arg-type]  # they are kept
        for run in runs
    ]


def compile_policies(specs: Iterable[RunSpec], *, jobs: int = -1, progress: Progress = no_progress) -> None:
    """Compile what these runs need, several policies at once, to files that every worker then loads."""
    kinds: dict[tuple[object, ...], tuple[Policy, Environment]] = {}
    for spec in specs:
        kind = (type(spec.policy), spec.policy.link, spec.environment.noise.name, spec.environment.dim)
        kinds.setdefault(kind, (spec.policy, spec.environment))
    done = 0.0
    progress("compiling", done, len(kinds))
    for name in in_processes(_compile, list(kinds.values()), jobs):
        done += 1
        progress(f"compiled {name}", done, len(kinds))


def _compile(policy: Policy, environment: Environment) -> str:
    prepare([policy], environment)
    return policy.name
