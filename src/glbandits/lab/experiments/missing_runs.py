"""Run the specs that are not in the store yet: on the cores of this machine, or on Ray."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from glbandits.common.parallel import check_engine, run_in_processes, run_parallel
from glbandits.lab.environments import Environment
from glbandits.lab.experiments.progress import Progress, no_progress
from glbandits.lab.experiments.result_store import FinishedRun, ResultStore
from glbandits.lab.experiments.run_spec import RunSpec
from glbandits.lab.simulation import play_together, prepare, recorded_rounds
from glbandits.policies.contract import Policy

POINTS = 200
"""Rounds at which a run's regret is recorded."""
TASK_SECONDS = 1.0
"""Target duration of a task, a group of runs for one worker. A killed command loses its unfinished tasks."""
OVERHEAD = 0.001
"""CPU seconds of a run outside of its policy."""


class RunKind(NamedTuple):
    """What determines the cost of a run. Runs of one kind cost about the same."""

    policy: type[Policy]
    keeps_history: bool
    environment: str
    horizon: int


class Workload:
    """Planned and finished runs in CPU seconds.

    The cost of a kind of run is the mean of its finished runs, or an initial guess if none has finished.
    """

    def __init__(self, specs: Iterable[RunSpec]) -> None:
        self._planned = Counter(map(self.kind, {spec.key: spec for spec in specs}.values()))
        self._finished: Counter[RunKind] = Counter()
        self._measured: dict[RunKind, tuple[float, int]] = {}

    @staticmethod
    def kind(spec: RunSpec) -> RunKind:
        """Return the kind of a run."""
        return RunKind(type(spec.policy), spec.policy.keeps_history, spec.problem.fingerprint, spec.horizon)

    def finish(self, spec: RunSpec, run: FinishedRun) -> None:
        """Count a run as finished, and update the cost of its kind."""
        self._finished[self.kind(spec)] += 1
        self._measure(spec, run)

    def skip(self, spec: RunSpec, run: FinishedRun) -> None:
        """Remove a planned run that the store already has, and update the cost of its kind."""
        self._planned[self.kind(spec)] -= 1
        self._measure(spec, run)

    def _measure(self, spec: RunSpec, run: FinishedRun) -> None:
        seconds, count = self._measured.get(self.kind(spec), (0.0, 0))
        self._measured[self.kind(spec)] = (seconds + run.seconds + OVERHEAD, count + 1)

    def seconds(self, kind: RunKind) -> float:
        """Return the expected CPU seconds of a run of this kind."""
        if kind in self._measured:
            seconds, count = self._measured[kind]
            return seconds / count
        thousands = kind.horizon / 1000
        return OVERHEAD + (0.03 if kind.keeps_history else 0.001) * thousands

    @property
    def done(self) -> float:
        """CPU seconds of the finished runs."""
        return sum(self._finished[kind] * self.seconds(kind) for kind in self._planned)

    @property
    def total(self) -> float:
        """CPU seconds of all planned runs."""
        return sum(max(count, self._finished[kind]) * self.seconds(kind) for kind, count in self._planned.items())


@dataclass(frozen=True)
class Task:
    """Runs on the same rounds, which one worker plays together."""

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
    """Run the specs that the store lacks. Finished tasks are added to the store at once.

    `progress` receives the CPU seconds done and in total. Pass a `workload` that also plans later runs to include them
    in the total.
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
    tasks = make_tasks(missing, workload)
    for index, finished in run_parallel(play_task, tasks, jobs=jobs, engine=engine):
        task = tasks[index]
        runs = list(zip(task.specs, finished, strict=True))
        store.add(runs)
        for spec, result in runs:
            workload.finish(spec, result)
        progress(f"playing {task.specs[-1].policy.name}", workload.done, workload.total)


def make_tasks(specs: Sequence[RunSpec], workload: Workload) -> list[Task]:
    """Group runs into tasks, in the order in which they start.

    The first tasks contain one run of each kind, so that its cost is known early. The others start in order of
    decreasing length.
    """

    def rounds_of(spec: RunSpec) -> tuple[str, int, int]:
        return spec.problem.fingerprint, spec.horizon, spec.seed

    def seconds(spec: RunSpec) -> float:
        return workload.seconds(workload.kind(spec))

    tasks: list[Task] = []
    for _, group in groupby(sorted(specs, key=rounds_of), key=rounds_of):
        members, length = list[RunSpec](), 0.0
        for spec in sorted(group, key=seconds):
            if members and length + seconds(spec) > TASK_SECONDS:
                tasks.append(Task(tuple(members), length))
                members, length = [], 0.0
            members.append(spec)
            length += seconds(spec)
        tasks.append(Task(tuple(members), length))
    longest_first = sorted(tasks, key=lambda task: -task.seconds)
    seen, first, later = set[RunKind](), list[Task](), list[Task]()
    for task in longest_first:
        kinds = set(map(workload.kind, task.specs))
        (later if kinds <= seen else first).append(task)
        seen |= kinds
    return first + later


def play_task(task: Task) -> list[FinishedRun]:
    """Play all runs of a task, in this process or in a worker."""
    first = task.specs[0]
    rounds = recorded_rounds(first.horizon, POINTS)
    policies = [spec.policy for spec in task.specs]
    noise_seeds = [spec.noise_seed for spec in task.specs]
    runs = play_together(
        policies, first.environment, first.horizon, first.seed, rounds, noise_seeds=noise_seeds, keep_choices=True
    )
    return [
        FinishedRun(run.seconds, rounds, run.regret, np.bincount(run.choices))  # type: ignore[arg-type]  # keep_choices=True
        for run in runs
    ]


def compile_policies(specs: Iterable[RunSpec], *, jobs: int = -1, progress: Progress = no_progress) -> None:
    """Compile the policies of these runs in parallel, into the cache that every worker loads."""
    to_compile: dict[tuple[object, ...], tuple[Policy, Environment]] = {}
    for spec in specs:
        key = (type(spec.policy), spec.policy.link, spec.environment.noise.name, spec.environment.dim)
        to_compile.setdefault(key, (spec.policy, spec.environment))
    done = 0.0
    progress("compiling", done, len(to_compile))
    for name in run_in_processes(_compile, list(to_compile.values()), jobs):
        done += 1
        progress(f"compiled {name}", done, len(to_compile))


def _compile(policy: Policy, environment: Environment) -> str:
    prepare([policy], environment)
    return policy.name
