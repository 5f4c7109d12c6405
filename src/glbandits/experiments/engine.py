"""Running what is not yet in the store: on the cores of this machine, or on Ray."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed

from glbandits.environments import Environment
from glbandits.errors import InvalidInput, look_up, whole
from glbandits.experiments.progress import Progress, no_progress
from glbandits.experiments.result_store import FinishedRun, ResultStore
from glbandits.experiments.run_spec import RunSpec
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
    run = ENGINES[engine]
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
    for task, finished in run(tasks(missing, workload), jobs):
        runs = list(zip(task.specs, finished, strict=True))
        store.add(runs)
        for spec, result in runs:
            workload.finish(spec, result)
        progress(f"playing {task.specs[-1].policy.name}", workload.done, workload.total)


def check_engine(engine: str, jobs: int) -> None:
    """Refuse an unknown engine, one that is not installed, and a wrong number of processes."""
    look_up("engine", engine, ENGINES)
    workers(jobs)
    if engine == "ray":
        _import_ray()


def workers(jobs: int) -> int:
    """The number of processes that `jobs` asks for."""
    if whole("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of processes, or -1 for one per core; got 0")
    return int(cpu_count()) if jobs == -1 else jobs


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


def in_processes(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[Any]:
    """Results in the order in which they finish: from this process for one job, from worker processes for more."""
    many = min(len(arguments), workers(jobs))
    if many <= 1:
        yield from (function(*values) for values in arguments)
        return
    results = Parallel(n_jobs=many, return_as="generator_unordered", batch_size=1)(
        delayed(function)(*values) for values in arguments
    )
    yield from results


def _local(cut: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[FinishedRun]]]:
    """Processes of this machine."""
    for number, finished in in_processes(_play_numbered, list(enumerate(cut)), jobs):
        yield cut[number], finished


def _play_numbered(number: int, task: Task) -> tuple[int, list[FinishedRun]]:
    return number, play_task(task)


def _ray(cut: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[FinishedRun]]]:
    """A Ray cluster: the one that the variable RAY_ADDRESS names, or one of `jobs` cores on this machine."""
    ray = _import_ray()
    started_here = not ray.is_initialized()
    if started_here:
        is_cluster = "RAY_ADDRESS" in os.environ  # it has its own number of cores
        cores = None if is_cluster or jobs == -1 else jobs
        ray.init(num_cpus=cores, include_dashboard=None if is_cluster else False, log_to_driver=False)
    try:
        remote: Any = ray.remote(num_cpus=1)(play_task)
        waiting = {remote.remote(task): task for task in cut}
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                yield waiting.pop(reference), ray.get(reference)
    finally:
        if started_here:
            ray.shutdown()


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise InvalidInput(
            "--engine ray needs Ray, which is in the extra [ray]: pip install 'glbandits[ray]'"
        ) from None
    return ray


ENGINES = {"local": _local, "ray": _ray}
