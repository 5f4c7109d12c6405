"""A store for tests of the batch writer, which can block and fail."""

import asyncio
from collections.abc import Sequence
from typing import Any

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import Event, EventStatus, Receipt, Reward
from glbandits.service.runtime.batch_writer import BatchWriter

SLOW = 60.0
"""A timeout that no test reaches."""


class FakeStore:
    """Records its batches, blocks while it is held, and raises `failure` while one is set."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.began = asyncio.Event()
        self.attempts = 0
        self.failure: Exception | None = None

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        self.attempts += 1
        self.began.set()
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        for event in events:
            if isinstance(event, Reward) and (event.value or 0.0) < 0:
                raise InvalidInput("value must not be negative")
            if event.event_id == "poison":
                raise ZeroDivisionError("a bug")
        self.batches.append([event.event_id for event in events])
        return [Receipt(EventStatus.ACCEPTED, len(self.batches))] * len(events)

    @property
    def written(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


async def hold(store: FakeStore, writer: BatchWriter, event: Event) -> "asyncio.Future[Receipt]":
    """Submit an event, and return while its commit hangs."""
    store.open.clear()
    store.began.clear()
    receipt = writer.submit(event, SLOW)
    await store.began.wait()
    return receipt


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)
