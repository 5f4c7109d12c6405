"""The line of progress while entry points are compiled, with an estimate of the time left."""

import heapq
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from glbandits.common.display.progress_lines import live_progress
from glbandits.compilation.compiler_pool import core_count
from glbandits.compilation.machine_code import entry_name

START_SECONDS, SECONDS_PER_BYTE = 1.0, 5.5e-4
"""Typical CPU seconds to start a process, and to compile a byte of the Python code that an entry point calls."""
LATER_SHARE = 0.15
"""The share of this time for another entry point of the same policy, which calls the same functions."""
GUESS_WEIGHT = 0.25
"""The weight of the first guess of the slowness, as a share of the whole plan."""
LATE_SHARE = 0.1
"""The share of a task that is assumed to be left if it takes longer than planned."""


class Compiled(Protocol):
    """An entry point."""

    recipe: Any
    job: tuple[Any, ...]

    @property
    def family(self) -> Any:
        """The policy and the link."""

    @property
    def is_ready(self) -> bool:
        """Whether compilation has ended."""


def expected_seconds(recipe: Any) -> float:
    """Estimate the CPU seconds to compile a recipe."""
    name = entry_name(recipe.function, recipe.name, recipe.check_bounds)
    return START_SECONDS + SECONDS_PER_BYTE * sum(len(function.__code__.co_code) for function in name.functions)


class CompilePlan:
    """Estimates the seconds until all of some tasks are finished, which several processes do in their order.

    Args:
        seconds: the planned seconds of each task.
        processes: the number of processes.
        slowness: a guess how many times longer the tasks take. The times of finished tasks correct it.
    """

    def __init__(self, seconds: Sequence[float], processes: int, slowness: float) -> None:
        self._seconds, self._slowness = seconds, slowness
        self._ends, free = dict[int, float](), [0.0] * processes
        for index, planned in enumerate(seconds):
            self._ends[index] = heapq.heappop(free) + planned
            heapq.heappush(free, self._ends[index])
        self._weight = GUESS_WEIGHT * max(free)
        self._finished = 0.0, 0.0  # the latest planned end of a finished task, and when it ended

    def left(self, elapsed: float, finished: Iterable[int]) -> float:
        """Return the seconds left after these elapsed seconds, when the tasks with these indices are finished."""
        for index in finished:
            if index in self._ends:
                self._finished = max(self._finished, (self._ends.pop(index), elapsed))
        planned, actual = self._finished
        slowness = (self._weight * self._slowness + actual) / (self._weight + planned)
        late = LATE_SHARE * max((self._seconds[index] for index in self._ends), default=0.0)
        end = max(self._ends.values(), default=0.0)
        return max(slowness * (end - planned) - (elapsed - actual), slowness * late, 1.0)


@contextmanager
def compile_progress(entries: Sequence[Compiled], processes: int) -> Iterator[None]:
    """Show how many of these entry points are compiled, and the time left, until the block ends."""
    seconds, families = list[float](), set[Any]()
    for entry in entries:
        share = LATER_SHARE if entry.family in families and len(families) >= processes else 1.0
        families.add(entry.family)
        seconds.append(share * expected_seconds(entry.recipe))
    plan, start = CompilePlan(seconds, processes, _slowness(min(len(entries), processes))), time.monotonic()
    names = [str(entry.recipe.name).partition(",")[0] for entry in entries]
    policies = {name for name, entry in zip(names, entries, strict=True) if _has_policy(entry)} or set(names)

    def describe() -> tuple[str, float, float]:
        elapsed = time.monotonic() - start
        ready = [index for index, entry in enumerate(entries) if entry.is_ready]
        done = policies - {name for index, name in enumerate(names) if index not in ready}
        return _label(policies, done), elapsed, elapsed + plan.left(elapsed, ready)

    with live_progress(describe):
        yield


def _slowness(processes: int) -> float:
    """Guess how many times longer these processes take, because other programs use the same cores."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max((load + processes) / core_count(), 1.0)


def _has_policy(entry: Compiled) -> bool:
    """Whether a policy is among the arguments of the job."""
    return any(isinstance(argument, type) for argument in entry.job[1])


def _label(policies: set[str], done: set[str]) -> str:
    if len(policies) == 1:
        return f"compiling {next(iter(policies))}, once on this machine"
    return f"compiling {len(policies)} policies, once on this machine: {len(done)} of {len(policies)}"
