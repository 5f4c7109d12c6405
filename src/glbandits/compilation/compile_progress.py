"""The line of progress while entry points are compiled, with an estimate of the time left."""

import heapq
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from glbandits.common.display.progress_lines import live_progress
from glbandits.compilation.compiler_pool import core_count
from glbandits.compilation.machine_code import entry_name

START_SECONDS, SECONDS_PER_BYTE = 1.0, 5.5e-4
"""Typical CPU seconds to start a process, and to compile a byte of the Python code that an entry point calls."""
LATER_SHARE = 0.15
"""The share of this time for another entry point of the same policy, which calls the same functions."""


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


@contextmanager
def compile_progress(entries: Sequence[Compiled]) -> Iterator[None]:
    """Show how many of these entry points are compiled, and the time left, until the block ends."""
    processes = core_count()
    planned, free = dict[int, float](), [0.0] * processes
    families = set[Any]()
    for index, entry in enumerate(entries):
        share = LATER_SHARE if entry.family in families and len(families) >= processes else 1.0
        families.add(entry.family)
        planned[index] = heapq.heappop(free) + share * expected_seconds(entry.recipe)
        heapq.heappush(free, planned[index])
    end, start, slowness = max(planned.values()), time.monotonic(), _slowness(min(len(entries), processes))
    names = [str(entry.recipe.name).partition(",")[0] for entry in entries]
    policies = {name for name, entry in zip(names, entries, strict=True) if _has_policy(entry)} or set(names)

    def describe() -> tuple[str, float, float]:
        nonlocal slowness
        elapsed = time.monotonic() - start
        for index in [index for index in planned if entries[index].is_ready]:
            slowness = elapsed / planned.pop(index)
        late = elapsed / min(planned.values(), default=end)
        left = max(slowness, late) * end - elapsed
        done = policies - {names[index] for index in planned}
        return _label(policies, done), elapsed, elapsed + max(left, 1.0)

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
