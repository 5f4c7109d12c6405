"""Writes events in batches: many requests, one commit."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec

from glbandits.errors import InvalidInput, whole
from glbandits.serving.domain.errors import QueueFull, StoreError
from glbandits.serving.domain.event_rules import Name
from glbandits.serving.domain.events import Decision, Event, Receipt, size_of

log = logging.getLogger(__name__)

Outcome: TypeAlias = Receipt | Exception
BATCH_EVENTS, COLLECT_SECONDS = 256, 0.002
"""A batch is complete with so many events, or after so long, though more events come."""
RETRY_SECONDS = 0.1
"""Time between two attempts to write decisions that the store failed to write."""
CLOSE_SECONDS = 10.0
"""Time that `close` waits for the store."""
QUEUE_BYTES = 256 * 1024 * 1024
CLOSED = "The service is shutting down. Retry later."
UNAVAILABLE = "The store does not accept events at the moment. Nothing was written; retry later."


class Appends(Protocol):
    """The part of a store that a writer needs."""

    async def append(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventStore.append`."""


class WriterState(StrEnum):
    """See the diagram of `BatchWriter`."""

    IDLE = "idle"
    COLLECTING = "collecting"
    WRITING = "writing"
    RETRYING = "retrying"
    CLOSED = "closed"


@dataclass(kw_only=True)
class WriterCounts:
    """Totals since the writer was created."""

    batches: int = 0
    events: int = 0
    """Events with a receipt."""
    refused: int = 0
    """Events that ended with an error."""
    failures: int = 0
    """Batches whose decisions had to be retried."""
    seconds: float = 0.0
    """Time spent in `store.append`."""


class Pending(msgspec.Struct, eq=False):
    """An event that is not written yet, and the future of its receipt."""

    event: Event
    receipt: "asyncio.Future[Receipt]"
    submitted_at: float
    """By `time.monotonic`."""


class BatchWriter:
    """Appends events to a store in the order of submission, a batch per commit, from one asyncio task.

    ::

                  submit                 an event-loop iteration
        IDLE ---------------> COLLECTING ------------------------> WRITING
         ^                        ^       without new events,       |   |
         |                        |       or a full batch           |   | StoreError
         |                        |                                 |   v
         +-- queue is empty ------+------- batch committed ---------+  RETRYING --+
                                  ^                                     |    ^    | again after
                                  +--------- decisions committed -------+    +----+ RETRY_SECONDS

        CLOSED follows from every state: `close` writes the queue once more and refuses further events.

    If the store fails, rewards and activations of the batch get the error, and those that are submitted while the
    writer is RETRYING are refused at once. Decisions are retried until they are written or the writer is closed,
    because their clients may have received a degraded answer already. No event overtakes them.

    A writer belongs to the event loop that first submits an event.

    Args:
        store: where the events go. The caller closes it.
        queue: events that may wait to be written; `submit` raises `QueueFull` beyond.
        queue_bytes: total size of the decisions that may wait; `submit` raises `QueueFull` beyond.
    """

    def __init__(self, store: Appends, *, queue: int = 10_000, queue_bytes: int = QUEUE_BYTES) -> None:
        self.counts = WriterCounts()
        self.state = WriterState.IDLE
        self._store = store
        self._max_events = whole("queue", queue, at_least=1)
        self._max_bytes = whole("queue_bytes", queue_bytes, at_least=1)
        self._queue: deque[Pending] = deque()
        self._batch: Sequence[Pending] = ()
        self._bytes = 0
        self._decisions: dict[Name, Decision] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._failed_at: float | None = None

    @property
    def depth(self) -> int:
        """Number of events that wait or are being written."""
        return len(self._queue) + len(self._batch)

    def pending_decision(self, loop_name: str, event_id: str, slot: str) -> Decision | None:
        """The first decision of this name that is not written yet."""
        return self._decisions.get((loop_name, event_id, slot))

    def problem(self, seconds: float) -> str | None:
        """Say why events may have to wait: a failure less than `seconds` ago, or an event that waits for longer."""
        now = time.monotonic()
        if self.state is WriterState.RETRYING or (self._failed_at is not None and now - self._failed_at < seconds):
            return "the last events could not be written"
        oldest = self._batch[0] if self._batch else self._queue[0] if self._queue else None
        if oldest is not None and now - oldest.submitted_at > seconds:
            return f"an event has waited to be written for more than {seconds:g} s"
        return None

    def submit(self, event: Event, timeout: float) -> "asyncio.Future[Receipt]":
        """Queue an event and return the future of its receipt, which is set when the event is durable.

        After `timeout` seconds the future fails with a TimeoutError. A decision stays queued and is written. A reward
        or an activation is withdrawn, unless its commit has begun: then the future waits for the outcome, so that
        a failure always means that the event was not written.
        """
        self._check_room(event)
        event_loop = asyncio.get_running_loop()
        pending = Pending(event, event_loop.create_future(), time.monotonic())
        timer = event_loop.call_later(timeout, self._expire, pending)
        pending.receipt.add_done_callback(lambda _: timer.cancel())
        if isinstance(event, Decision):
            self._bytes += size_of(event)
            self._decisions.setdefault((event.loop, event.event_id, event.slot), event)
        self._queue.append(pending)
        if self._task is None:
            self._task = event_loop.create_task(self._run(), name="batch-writer")
        self._wake.set()
        return pending.receipt

    def _check_room(self, event: Event) -> None:
        if self.state is WriterState.CLOSED or self._closing.is_set():
            raise StoreError(CLOSED)
        if self.state is WriterState.RETRYING and not isinstance(event, Decision):
            raise StoreError(UNAVAILABLE)
        if self.depth >= self._max_events:
            raise QueueFull(f"Write queue is full ({self._max_events} events). Retry later.")
        if self._bytes + size_of(event) > self._max_bytes:
            raise QueueFull(f"Write queue is full ({self._max_bytes:,} bytes). Retry later.")

    def _expire(self, pending: Pending) -> None:
        if pending.receipt.done() or (pending in self._batch and not isinstance(pending.event, Decision)):
            return
        pending.receipt.set_exception(TimeoutError())
        if not isinstance(pending.event, Decision):
            self._queue.remove(pending)

    async def close(self) -> None:
        """Write the queue, with one attempt per batch, and refuse further events. Idempotent."""
        self._closing.set()
        self._wake.set()
        if self._task is not None:
            done, _ = await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            if not done:
                self._task.cancel()
                log.error("%d events are not written: the store did not answer in %g s", self.depth, CLOSE_SECONDS)
        self.state = WriterState.CLOSED

    async def _run(self) -> None:
        while self._queue or not self._closing.is_set():
            if not self._queue:
                self.state = WriterState.IDLE
                self._wake.clear()
                await self._wake.wait()
                continue
            self.state = WriterState.COLLECTING
            await self._collect()
            # A client that disconnected has cancelled its future. Nobody was promised that its reward is written.
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_EVENTS))]
            await self._write([one for one in batch if isinstance(one.event, Decision) or not one.receipt.done()])

    async def _collect(self) -> None:
        """Let requests that are ready join the batch."""
        size, until = 0, time.monotonic() + COLLECT_SECONDS
        while size < len(self._queue) < BATCH_EVENTS and time.monotonic() < until:
            size = len(self._queue)
            await asyncio.sleep(0)

    async def _write(self, batch: Sequence[Pending]) -> None:
        """Append a batch. Decisions that the store fails to write are retried until the writer is closed."""
        self.state, self._batch = WriterState.WRITING, batch
        while self._batch:
            last, began = self._closing.is_set(), time.monotonic()
            outcomes = await self._append([pending.event for pending in self._batch])
            self.counts.seconds += time.monotonic() - began
            retry = []
            for pending, outcome in zip(self._batch, outcomes, strict=True):
                if isinstance(outcome, StoreError) and isinstance(pending.event, Decision) and not last:
                    retry.append(pending)
                else:
                    self._finish(pending, outcome)
            self._batch = retry
            self.counts.batches += 1
            if retry:
                self.counts.failures += 1
                await self._wait_for_retry()

    async def _wait_for_retry(self) -> None:
        self.state = WriterState.RETRYING
        waiting = [pending for pending in self._queue if not isinstance(pending.event, Decision)]
        for pending in waiting:
            self._queue.remove(pending)
            self._finish(pending, StoreError(UNAVAILABLE))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), RETRY_SECONDS)

    async def _append(self, events: Sequence[Event]) -> Sequence[Outcome]:
        """Return a receipt or an error for each event. An invalid event does not harm the others."""
        if not events:
            return []
        try:
            receipts = await self._store.append(events)
        except InvalidInput as error:
            middle = len(events) // 2
            return [*await self._append(events[:middle]), *await self._append(events[middle:])] if middle else [error]
        except Exception as error:
            if self._failed_at is None:
                log.exception("the store failed to write %d events; decisions are retried", len(events))
            self._failed_at = time.monotonic()
            unwritten = error if isinstance(error, StoreError) else StoreError(f"the store failed: {error}")
            return [unwritten] * len(events)
        if self._failed_at is not None:
            log.info("the store accepts events again")
            self._failed_at = None
        return receipts

    def _finish(self, pending: Pending, outcome: Outcome) -> None:
        event = pending.event
        if isinstance(event, Decision):
            self._bytes -= size_of(event)
            name = (event.loop, event.event_id, event.slot)
            if self._decisions.get(name) is event:
                del self._decisions[name]
            if isinstance(outcome, StoreError):
                log.error("decision %s of loop %s is not written: %s", event.event_id, event.loop, outcome)
        if isinstance(outcome, Exception):
            self.counts.refused += 1
        else:
            self.counts.events += 1
        if not pending.receipt.done():
            if isinstance(outcome, Exception):
                pending.receipt.set_exception(outcome)
            else:
                pending.receipt.set_result(outcome)
