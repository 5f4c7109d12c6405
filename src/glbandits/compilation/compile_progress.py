"""The line of progress while entry points are compiled, with an estimate of the time left."""

import heapq
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from glbandits.common.display.progress_lines import live_progress
from glbandits.compilation.compiler_pool import Compilable, core_count
from glbandits.compilation.machine_code import entry_name

START_SECONDS, SECONDS_PER_BYTE = 1.0, 5.5e-4
"""Typical CPU seconds to start a process, and to compile a byte of the Python code that an entry point calls."""
LATER_SHARE = 0.15
"""The share of this time for another entry point of the same policy, which calls the same functions."""
GUESS_WEIGHT = 0.25
"""The weight of the first guess of the slowness, as a share of the whole plan."""
LATE_SHARE = 0.1
"""The share of a task that is assumed to be left if it takes longer than planned."""


def expected_seconds(recipe: Any) -> float:
    """Estimate the CPU seconds to compile a recipe."""
    name = entry_name(recipe.function, recipe.name, recipe.check_bounds)
    return START_SECONDS + SECONDS_PER_BYTE * sum(len(function.__code__.co_code) for function in name.functions)


class CompilePlan:
    """Estimates the seconds until all of some tasks are finished, which several processes begin in their order.

    Args:
        seconds: the planned seconds of each task.
        processes: the number of processes.
        slowness: a guess how many times longer the tasks take. The times of finished tasks correct it.
    """

    def __init__(self, seconds: Sequence[float], processes: int, slowness: float) -> None:
        self._seconds, self._processes = seconds, processes
        self._begun, self._finished = dict.fromkeys(range(processes), 0.0), set[int]()
        self._planned = GUESS_WEIGHT * sum(seconds)  # of finished tasks, and of the guess
        self._actual = self._planned * slowness

    def left(self, elapsed: float, finished: Iterable[int]) -> float:
        """Return the seconds left after these elapsed seconds, when the tasks with these indices are finished."""
        for index in set(finished) - self._finished:
            self._finished.add(index)
            if index in self._begun:
                self._planned += self._seconds[index]
                self._actual += elapsed - self._begun[index]
        slowness, free = self._actual / self._planned, list[float]()
        for index in [index for index in range(len(self._seconds)) if index not in self._finished]:
            expected = slowness * self._seconds[index]
            if len(free) < self._processes:
                begun = self._begun.setdefault(index, elapsed)
                heapq.heappush(free, max(expected - (elapsed - begun), LATE_SHARE * expected))
            else:
                heapq.heapreplace(free, free[0] + expected)
        return max([*free, 1.0])


@contextmanager
def compile_progress(entries: Sequence[Compilable], processes: int) -> Iterator[None]:
    """Show how many of these entry points are compiled, and the time left, until the block ends.

    The processes begin them in this order.
    """
    seconds, families = list[float](), set[Any]()
    for entry in entries:
        share = LATER_SHARE if entry.family in families and len(families) >= processes else 1.0
        families.add(entry.family)
        seconds.append(share * expected_seconds(entry.recipe))
    if processes == 1:  # shared functions are compiled as a part of those that need them
        seconds = [sum(seconds)]
    plan, start = CompilePlan(seconds, processes, _slowness(min(len(entries), processes))), time.monotonic()
    names = [str(entry.recipe.name).partition(",")[0] for entry in entries]
    policies = {name for name, entry in zip(names, entries, strict=True) if _has_policy(entry)} or set(names)

    def describe() -> tuple[str, float, float]:
        elapsed = time.monotonic() - start
        ready = [index for index, entry in enumerate(entries) if entry.is_ready]
        done = policies - {name for index, name in enumerate(names) if index not in ready}
        return _label(policies, done), elapsed, elapsed + plan.left(elapsed, ready if processes > 1 else [])

    with live_progress(describe):
        yield


def _slowness(processes: int) -> float:
    """Guess how many times longer these processes take, because other programs use the same cores."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max((load + processes) / core_count(), 1.0)


def _has_policy(entry: Compilable) -> bool:
    """Whether a policy is among the arguments of the job."""
    return any(isinstance(argument, type) for argument in entry.job[1])


def _label(policies: set[str], done: set[str]) -> str:
    if len(policies) == 1:
        return f"compiling {next(iter(policies))}, once on this machine"
    return f"compiling {len(policies)} policies, once on this machine: {len(done)} of {len(policies)}"
