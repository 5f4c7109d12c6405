"""Waits that end."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

OFTEN = 0.1
"""Seconds between two looks at who still waits."""


def time_out(waiter: "asyncio.Future[Any]") -> None:
    """Let a future fail with a TimeoutError."""
    waiter.set_exception(TimeoutError())


class Patience:
    """Ends waits that take too long, with one timer for all of them.

    `asyncio.wait_for` has a timer and a second future for each, which costs as much as the rest of the waiting. Here a
    wait may take OFTEN longer than it should. Belongs to one event loop at a time.

    Args:
        end: how a wait ends that took too long. It may go on, and is not ended again.
    """

    def __init__(self, end: Callable[[Any], object] = time_out) -> None:
        self._end = end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()

    def end_after(self, seconds: float, waiter: "asyncio.Future[Any]") -> None:
        """End the wait for a future if it is not done by then. All have the same time."""
        loop = waiter.get_loop()
        if loop is not self._loop:  # the last one is gone, with its timer
            self._loop, self._waiting = loop, deque()
        if not self._waiting:
            loop.call_later(min(seconds, OFTEN), self._look, loop)
        self._waiting.append((loop.time() + seconds, waiter))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, now = self._waiting, loop.time()
        while waiting and (waiting[0][0] <= now or waiting[0][1].done()):
            _, waiter = waiting.popleft()
            if not waiter.done():
                self._end(waiter)
        if waiting:
            loop.call_later(min(max(waiting[0][0] - now, 0.001), OFTEN), self._look, loop)
