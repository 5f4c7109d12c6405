"""Running what is not yet in the store: on the cores of this machine, or on Ray."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed

from glbandits.environments import Environment
from glbandits.errors import InvalidInput, look_up, whole
from glbandits.experiments.result_store import FinishedRun, ResultStore
from glbandits.experiments.run_spec import RunSpec, fingerprint
from glbandits.policy import Policy
from glbandits.simulation import play_together, prepare, recorded_rounds

POINTS = 200
"""Rounds at which a run's regret is recorded."""
HEAVY = 100.0
"""How much longer a policy that fits its history takes than one that does not, as the progress bar sees it."""
TASK_WEIGHT = 500.0
"""Runs go to a worker in tasks of about this weight: a second or so, and a point to go on from after a kill."""


@dataclass(frozen=True)
class Task:
    """Policies that play the same rounds, in one worker."""

    specs: tuple[RunSpec, ...]

    @property
    def weight(self) -> float:
        """What share of the work it is, roughly."""
        return sum(weight(spec) for spec in self.specs)


def weight(spec: RunSpec) -> float:
    """The work of a run, relative to others: fitting a history grows with the square of the rounds."""
    rounds = spec.horizon / 1000
    return HEAVY * rounds**2 if spec.policy.keeps_history else rounds


def run_missing(
    specs: Iterable[RunSpec],
    store: ResultStore,
    *,
    jobs: int = -1,
    engine: str = "local",
    progress: Callable[[float, float], None] | None = None,
) -> None:
    """Run all that the store does not have, and put it there as it comes in.

    `progress` is called with the weight of what is done and of all there is to do.
    """
    run = look_up("engine", engine, ENGINES)
    if whole("jobs", jobs, at_least=-1) == 0:
        raise InvalidInput("jobs must be a number of processes, or -1 for one per core; got 0")
    missing = store.missing(specs)
    total, done = sum(weight(spec) for spec in missing), 0.0
    if progress is not None:
        progress(0.0, total)
    if not missing:
        return
    _compile(missing)
    for task, finished in run(tasks(missing), jobs):
        store.add(list(zip(task.specs, finished, strict=True)))
        done += task.weight
        if progress is not None:
            progress(done, total)


def tasks(specs: Sequence[RunSpec]) -> list[Task]:
    """Cut the work into tasks, the heaviest first, so that no long one is left for the end."""

    def rounds_of(spec: RunSpec) -> tuple[str, int, int]:
        return fingerprint(spec.environment), spec.horizon, spec.seed

    cut: list[Task] = []
    for _, group in groupby(sorted(specs, key=rounds_of), key=rounds_of):
        part: list[RunSpec] = []
        for spec in sorted(group, key=weight):
            if part and sum(map(weight, part)) + weight(spec) > TASK_WEIGHT:
                cut.append(Task(tuple(part)))
                part = []
            part.append(spec)
        cut.append(Task(tuple(part)))
    return sorted(cut, key=lambda task: -task.weight)


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


def _compile(specs: Sequence[RunSpec]) -> None:
    """Compile here, once, what workers will then find on disk."""
    kinds: dict[tuple[object, ...], tuple[Policy, Environment]] = {}
    for spec in specs:
        kind = (type(spec.policy), spec.policy.link, spec.environment.noise.name)
        kinds.setdefault(kind, (spec.policy, spec.environment))
    for policy, environment in kinds.values():
        prepare([policy], environment)


def _local(cut: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[FinishedRun]]]:
    """Processes of this machine."""
    workers = min(len(cut), cpu_count() if jobs == -1 else jobs)
    if workers == 1:
        yield from ((task, play_task(task)) for task in cut)
        return
    results = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)(
        delayed(_with_number)(number, task) for number, task in enumerate(cut)
    )
    for number, finished in results:
        yield cut[number], finished


def _with_number(number: int, task: Task) -> tuple[int, list[FinishedRun]]:
    return number, play_task(task)


def _ray(cut: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[FinishedRun]]]:
    """A Ray cluster: the one that the environment variable RAY_ADDRESS names, or one on this machine."""
    try:
        import ray
    except ModuleNotFoundError:
        raise InvalidInput(
            "--engine ray needs Ray, which is in the extra [ray]: pip install 'glbandits[ray]'"
        ) from None
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(num_cpus=None if jobs == -1 else jobs, include_dashboard=False, log_to_driver=False)
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


ENGINES = {"local": _local, "ray": _ray}
