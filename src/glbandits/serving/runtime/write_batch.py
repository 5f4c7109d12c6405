"""Events that wait to be written, and those who wait for them."""

import asyncio
import time
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from glbandits.serving.domain.events import Event, Receipt

Outcome: TypeAlias = Receipt | Exception


FULL, LONGEST = 256, 0.002
"""Events and seconds after which a turn ends though more come."""


class Waiter(asyncio.Future[Receipt]):
    """What an event loop waits for: the receipt of an event."""

    turn: "Turn"
    """In which it was submitted."""


class Waiting(msgspec.Struct, eq=False):
    """An event that is to be written."""

    event: Event
    waiter: Waiter


class Turn:
    """What an event loop submits until it has come round once without more: that is written by one commit."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._seen = 0
        self.waiting: list[Waiting] = []
        self.bytes = 0
        """Of its decisions, about."""
        self.since = time.monotonic()
        self.taken = False
        """Whether the writer has begun to write it: nothing of it can be withdrawn any more."""

    def goes_on(self) -> bool:
        """Whether more has come since this was last asked, and may come."""
        seen, self._seen = self._seen, len(self.waiting)
        return seen < self._seen < FULL and time.monotonic() - self.since < LONGEST

    def events(self) -> list[Event]:
        """All of them, in order."""
        return [waiting.event for waiting in self.waiting]


Done: TypeAlias = Sequence[tuple[Waiting, Outcome]]
