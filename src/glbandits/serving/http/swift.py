"""Coroutines that run without a task.

A task of asyncio is entered in a list of all tasks, begins only when the event loop comes round again, and runs every
step in a context: about as much work as a decision. A coroutine that waits for futures alone needs none of that. It
must not use what asks for the current task, such as `asyncio.timeout`: that is for a task to do, for which it may wait.
"""

from asyncio import Future
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


def run_swiftly(coroutine: Coroutine["Future[Any]", None, Result], done: Callable[[Result], None]) -> None:
    """Run a coroutine, at once until it first waits, and then hand over what it returns. It must not raise."""
    _Steps(coroutine, done).go_on(None)


class _Steps(Generic[Result]):
    __slots__ = ("_coroutine", "_done")

    def __init__(self, coroutine: Coroutine["Future[Any]", None, Result], done: Callable[[Result], None]) -> None:
        self._coroutine, self._done = coroutine, done

    def go_on(self, _: "Future[Any] | None") -> None:
        try:
            future = self._coroutine.send(None)
        except StopIteration as end:
            self._done(end.value)
        else:
            future._asyncio_future_blocking = False  # as a task does: the future was given, and is waited for
            future.add_done_callback(self.go_on)
