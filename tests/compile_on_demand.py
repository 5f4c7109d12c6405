"""Compile in tests only what they run for long.

Most tests run a function so briefly that plain Python takes less time than compilation. In the mode "never", which
`tests/conftest.py` sets, this process compiles a function once plain Python has taken long, or if code is cached on
disk. Code of users is compiled at once, as in production.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from glbandits.compilation import entry_point
from glbandits.compilation.entry_point import EntryPoint, compile_mode
from glbandits.compilation.recipe import Recipe, is_cached

LOOK_SECONDS = 0.5
"""CPU seconds of plain Python between two looks for code that another process has compiled."""
POLICY_SECONDS, OTHER_SECONDS = 40.0, 2.0
"""CPU seconds of plain Python after which a function is compiled: one with a policy, and another one."""
LARGE_ARRAY = 100_000
"""Size of an array above which a function from `compiled()` is compiled."""
is_enabled = True
"""False for tests that run plain Python only."""


class OnDemandEntryPoint(EntryPoint):
    """An entry point that compiles itself after some seconds of plain Python."""

    __slots__ = ("_limit", "_next_look", "_seconds")

    def __init__(self, build: Callable[..., Recipe], arguments: tuple[Any, ...]) -> None:
        is_policy = any(isinstance(argument, type) for argument in arguments)
        self._limit = POLICY_SECONDS if is_policy else OTHER_SECONDS
        self._seconds, self._next_look = 0.0, LOOK_SECONDS
        super().__init__(build, arguments)

    @property
    def may_compile(self) -> bool:
        return is_enabled or compile_mode() != "never"

    def compiled(self) -> Callable[..., Any]:
        if self.is_compiled or compile_mode() != "never" or not is_enabled:
            return super().compiled()
        return self._call_many

    def pieces(self, rows: int, rows_later: int = 0) -> Iterator[tuple[slice, Callable[..., Any]]]:
        if compile_mode() == "never" and rows:
            yield slice(0, rows), self.compiled()
        else:
            yield from super().pieces(rows, rows_later)

    def _call_many(self, *arguments: Any) -> Any:
        if max((value.size for value in arguments if isinstance(value, np.ndarray)), default=0) > LARGE_ARRAY:
            self._machine_code()
        return self.call(*arguments)

    def _call_plain(self, *arguments: Any) -> Any:
        start = time.thread_time()
        result = super()._call_plain(*arguments)
        self._seconds += time.thread_time() - start
        if self._seconds > self._next_look and self.may_compile and not self.is_compiled:
            self._next_look = self._seconds + LOOK_SECONDS
            if self._seconds > self._limit or is_cached(self.recipe):
                self._machine_code()
        return result


def install() -> None:
    """Let every entry point of this process compile itself on demand."""
    entry_point.EntryPoint = OnDemandEntryPoint  # type: ignore[misc]
