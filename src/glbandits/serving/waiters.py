"""Events that wait to be written, and those who wait for them."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

from glbandits.serving.events import Event, Receipt

Outcome: TypeAlias = Receipt | Exception


class Waiter(asyncio.Future[Receipt]):
    """What an event loop waits for: the receipt of an event."""

    taken = False
    """Whether the writer has begun to write the event: it cannot be withdrawn any more."""


class Waiting(NamedTuple):
    """An event that is to be written."""

    event: Event
    waiter: "Future[Receipt] | Waiter"
    since: float
    """When it was submitted."""


def settle_all(done: Sequence[tuple[Waiting, Outcome]]) -> None:
    """Tell those who wait what became of their events, from the writer's thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Waiter, Outcome]]] = {}
    for item, outcome in done:
        waiter = item.waiter
        if isinstance(waiter, Waiter):
            by_loop.setdefault(waiter.get_loop(), []).append((waiter, outcome))
        else:
            _settle(waiter, outcome)
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_there, settled)
        except RuntimeError:
            continue  # The event loop is closed: the events are safe, and nobody waits for them.


def _settle_there(settled: Sequence[tuple[Waiter, Outcome]]) -> None:
    """In the thread of the event loop."""
    for waiter, outcome in settled:
        if not waiter.done():
            _settle(waiter, outcome)


def _settle(waiter: "Future[Receipt] | Waiter", outcome: Outcome) -> None:
    if isinstance(outcome, Exception):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)
