"""Run the specs that are not in the store yet: on the cores of this machine, or on Ray."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from glbandits.common.parallel import check_engine, run_parallel, worker_count
from glbandits.compilation.entry_point import compile_all
from glbandits.lab.experiments.progress import Progress, no_progress
from glbandits.lab.experiments.result_store import FinishedRun, ResultStore
from glbandits.lab.experiments.run_spec import RunSpec
from glbandits.lab.simulation import play_together, recorded_rounds
from glbandits.lab.simulation.simulate import play_job
from glbandits.policies.agents import AgentFactory, PolicyOrAgent

POINTS = 200
"""Rounds at which a run's regret is recorded."""
TASK_SECONDS = 1.0
"""Target duration of a task, a group of runs for one worker. A killed command loses its unfinished tasks."""
WAIT_SECONDS = 0.2
"""Pause before the store is read again, while all missing runs are claimed by other processes."""
OVERHEAD = 0.001
"""CPU seconds of a run outside of its policy."""


def expected_seconds(specs: Iterable[RunSpec]) -> float:
    """Guess the CPU seconds of these runs."""
    return sum(OVERHEAD + _round_milliseconds(spec.policy) * spec.horizon / 1000 for spec in specs)


def _round_milliseconds(policy: PolicyOrAgent) -> float:
    if isinstance(policy, AgentFactory):
        return 0.1
    return 0.03 if policy.keeps_history else 0.001


def run_missing(
    specs: Iterable[RunSpec],
    store: ResultStore,
    *,
    jobs: int = -1,
    engine: str = "local",
    progress: Progress = no_progress,
) -> None:
    """Run the specs that the store lacks. Finished tasks are added to the store at once.

    Runs that another process has claimed are left to it. If it ends without their results, they are played here.
    Returns when the store has all results.

    `progress` receives the expected CPU seconds of the finished runs, and of all missing runs.
    """
    check_engine(engine, jobs)
    missing = store.missing(specs)
    total = expected_seconds(missing)
    progress("playing", 0.0, total)
    if missing:
        compile_policies(missing)
    with store.claiming() as claim:
        while missing:
            done = total - expected_seconds(missing)
            for task, finished in _play_claimed(make_tasks(missing), claim, jobs, engine):
                store.add(list(zip(task, finished, strict=True)))
                done += expected_seconds(task)
                progress(f"playing {task[-1].policy.name}", done, total)
            missing, before = store.missing(missing), missing
            if len(missing) == len(before):
                progress("waiting for runs of another command", done, total)
                time.sleep(WAIT_SECONDS)


def _play_claimed(
    tasks: Sequence[Sequence[RunSpec]], claim: Callable[[Sequence[RunSpec]], list[RunSpec]], jobs: int, engine: str
) -> Iterator[tuple[list[RunSpec], list[FinishedRun]]]:
    """Claim each task shortly before a worker is free, and yield the runs that this process got, with their results."""
    claimed = list[list[RunSpec]]()

    def claimed_tasks() -> Iterator[list[RunSpec]]:
        for task in tasks:
            if own := claim(task):
                claimed.append(own)
                yield own

    jobs = min(worker_count(jobs), len(tasks))
    for index, finished in run_parallel(play_task, claimed_tasks(), jobs=jobs, engine=engine):
        yield claimed[index], finished


def make_tasks(specs: Sequence[RunSpec]) -> list[tuple[RunSpec, ...]]:
    """Group runs on the same rounds, which one worker plays together. The longest tasks start first.

    A run of an agent is a task of its own: if an agent fails, no other run of its task is lost.
    """

    def rounds_of(spec: RunSpec) -> tuple[str, int, int]:
        return spec.problem.identity, spec.horizon, spec.seed

    def seconds(spec: RunSpec) -> float:
        return expected_seconds([spec])

    tasks: list[tuple[RunSpec, ...]] = [(spec,) for spec in specs if isinstance(spec.policy, AgentFactory)]
    policies = [spec for spec in specs if not isinstance(spec.policy, AgentFactory)]
    for _, group in groupby(sorted(policies, key=rounds_of), key=rounds_of):
        members: list[RunSpec] = []
        for spec in sorted(group, key=seconds):
            if members and expected_seconds([*members, spec]) > TASK_SECONDS:
                tasks.append(tuple(members))
                members = []
            members.append(spec)
        tasks.append(tuple(members))
    return sorted(tasks, key=expected_seconds, reverse=True)


def play_task(task: Sequence[RunSpec]) -> list[FinishedRun]:
    """Play all runs of a task, in this process or in a worker."""
    first = task[0]
    rounds = recorded_rounds(first.horizon, POINTS)
    policies = [spec.policy for spec in task]
    noise_seeds = [spec.noise_seed for spec in task]
    runs = play_together(
        policies, first.environment, first.horizon, first.seed, rounds, noise_seeds=noise_seeds, keep_choices=True
    )
    return [
        FinishedRun(run.seconds, rounds, run.regret, np.bincount(run.choices))  # type: ignore[arg-type]  # keep_choices=True
        for run in runs
    ]


def compile_policies(specs: Iterable[RunSpec]) -> None:
    """Compile the policies of these runs at the same time, into the cache that every worker loads."""
    to_compile = {}
    for spec in specs:
        policy, dim, noise = spec.policy, spec.environment.dim, spec.environment.noise.name
        if not isinstance(policy, AgentFactory):
            to_compile[policy.implementation(dim), policy.link, noise, dim] = play_job(policy, spec.environment)
    compile_all(list(to_compile.values()))
