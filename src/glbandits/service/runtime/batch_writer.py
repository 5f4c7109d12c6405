"""Writes events in batches, so that many requests share one commit."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, takewhile
from typing import Protocol, TypeAlias

from glbandits.common.errors import GlbanditsError, check_int
from glbandits.service.domain.errors import QueueFull, StoreError
from glbandits.service.domain.event_rules import DecisionName, is_later_slot, size_of
from glbandits.service.domain.events import Decision, Event, Receipt
from glbandits.service.runtime.failure_log import FailureLog

log = logging.getLogger(__name__)

WriteResult: TypeAlias = Receipt | Exception
BATCH_EVENTS, COLLECT_SECONDS = 256, 0.002
"""A batch is complete with so many events, or after so many seconds, even if more events come. It has all slots of an
event."""
DEADLINE_TICK = 0.01
"""Seconds between two looks for events whose deadlines have passed, at least."""
RETRY_SECONDS = 0.1
"""Time between two attempts to write decisions that the store failed to write."""
CLOSE_SECONDS = 10.0
"""Time that `close` waits for the store."""
QUEUE_BYTES = 256 * 1024 * 1024
CLOSED = "The service is shutting down. Retry later."
UNAVAILABLE = "The store does not accept events at the moment. Nothing was written; retry later."
NO_ANSWER = "The store did not answer before the service stopped. The event may or may not be written."
WRITING = "writing events"


class EventAppender(Protocol):
    """The part of a store that the writer needs."""

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
    failed_events: int = 0
    """Events that the store failed to write. Invalid events do not count."""
    lost_decisions: int = 0
    """Decisions of `failed_events` that clients had received as degraded."""
    retried_batches: int = 0
    """Batches whose decisions had to be retried."""
    seconds: float = 0.0
    """Time spent in `store.append`."""


@dataclass(eq=False, slots=True)
class Pending:
    """An event that is not written yet, and the future of its receipt."""

    event: Event
    receipt: "asyncio.Future[Receipt]"
    submitted_at: float
    """By `time.monotonic`."""
    deadline: float
    """When the future fails, by `time.monotonic`."""
    size: int
    """Bytes in memory, see `size_of`."""

    @property
    def withdrawn(self) -> bool:
        """Whether the event must not be written: a reward or activation without a waiting client."""
        return self.receipt.done() and not isinstance(self.event, Decision)


class BatchWriter:
    """Appends events to a store in the order of submission, a batch per commit.

    One asyncio task writes.

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

    If the store raises a StoreError, rewards and activations of the batch get the error, and those that are submitted
    while the writer is RETRYING are refused at once. Decisions are retried until they are written or the writer is
    closed, because their clients may have received a degraded answer already. No event overtakes them. If the store
    raises anything else, the writer splits the batch until it finds the event at fault, and only that event fails.

    All methods must be called in the thread of one event loop. If that event loop ends before `close`, the events that
    wait are lost, which is logged; the writer can then be used in another event loop.

    Args:
        store: where the events go. The caller closes it.
        queue: events that may wait to be written; `submit` raises `QueueFull` beyond.
        queue_bytes: total size of the decisions that may wait; `submit` raises `QueueFull` beyond.
    """

    def __init__(self, store: EventAppender, *, queue: int = 10_000, queue_bytes: int = QUEUE_BYTES) -> None:
        self.counts = WriterCounts()
        self.state = WriterState.IDLE
        self._store = store
        self._max_events = check_int("queue", queue, at_least=1)
        self._max_bytes = check_int("queue_bytes", queue_bytes, at_least=1)
        self._queue: OrderedDict[Pending, None] = OrderedDict()
        """A queue from which any event can be removed in constant time."""
        self._batch: Sequence[Pending] = ()
        self._bytes = 0
        self._decisions: dict[DecisionName, Decision] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closing = False
        self._failures = FailureLog(log)
        self._failed_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._next_deadline = math.inf
        """When the timer looks for events whose deadlines have passed."""

    @property
    def depth(self) -> int:
        """Number of events that wait or are being written."""
        return len(self._queue) + len(self._batch)

    def pending_decision(self, loop_name: str, event_id: str, slot: str) -> Decision | None:
        """Return the first decision of this name that is not written yet."""
        return self._decisions.get((loop_name, event_id, slot))

    def problem(self, seconds: float) -> str | None:
        """Return why events may have to wait; None if they need not.

        The reason is a failure less than `seconds` ago, or an event that has waited for longer.
        """
        now = time.monotonic()
        if self.state is WriterState.RETRYING or (self._failures.failing and now - self._failed_at < seconds):
            return "the last events could not be written"
        oldest = self._batch[0] if self._batch else next(iter(self._queue), None)
        if oldest is not None and now - oldest.submitted_at > seconds:
            return f"an event has waited to be written for more than {seconds:g} s"
        return None

    def submit(self, event: Event, timeout: float) -> "asyncio.Future[Receipt]":
        """Queue an event. Returns the future of its receipt, which is set when it is durable.

        After `timeout` seconds the future fails with a TimeoutError. A decision stays queued and is written. A reward
        or an activation is withdrawn, unless its commit has started: then the future waits for the outcome, so that a
        failure always means that the event was not written. Cancelling the future withdraws the event in the same way.
        """
        return self._enqueue([event], timeout)[0]

    def submit_slots(self, decisions: Sequence[Decision]) -> "list[asyncio.Future[Receipt]]":
        """Queue the decisions of all slots of an event, for one batch. Returns the futures of their receipts.

        The decisions stay queued and are written, whatever happens to the futures.
        """
        return self._enqueue(decisions, math.inf)

    def _enqueue(self, events: Sequence[Event], timeout: float) -> "list[asyncio.Future[Receipt]]":
        sizes = list(map(size_of, events))
        self._check_room(events, sum(sizes))
        event_loop, now = asyncio.get_running_loop(), time.monotonic()
        receipts = []
        for event, size in zip(events, sizes, strict=True):
            pending = Pending(event, event_loop.create_future(), now, now + timeout, size)
            if isinstance(event, Decision):
                self._bytes += size
                self._decisions.setdefault((event.loop, event.event_id, event.slot), event)
            self._queue[pending] = None
            receipts.append(pending.receipt)
        if now + timeout < self._next_deadline:
            self._expire_at(now + timeout, timeout)
        if self._task is None:
            self._wake = asyncio.Event()
            self._task = event_loop.create_task(self._run(), name="batch-writer")
        elif self.state is WriterState.IDLE:
            self._wake.set()
        return receipts

    def _check_room(self, events: Sequence[Event], size: int) -> None:
        if self._closing:
            raise StoreError(CLOSED)
        if self.state is WriterState.RETRYING and not isinstance(events[0], Decision):
            raise StoreError(UNAVAILABLE)
        if self.depth + len(events) > self._max_events:
            raise QueueFull(f"Write queue is full ({self._max_events} events). Retry later.")
        if self._bytes + size > self._max_bytes:
            raise QueueFull(f"Write queue is full ({self._max_bytes:,} bytes). Retry later.")

    def _expire_at(self, deadline: float, seconds: float) -> None:
        """Let `_expire` run at a deadline, in so many seconds. One timer serves all events."""
        if self._timer is not None:
            self._timer.cancel()
        self._next_deadline, self._timer = deadline, asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        """Fail the futures whose deadlines have passed, and set the timer for the next one."""
        self._timer, self._next_deadline, now, later = None, math.inf, time.monotonic(), math.inf
        for pending in (*self._batch, *self._queue):
            if pending.deadline > now:
                later = min(later, pending.deadline)
            elif not pending.receipt.done() and (isinstance(pending.event, Decision) or pending in self._queue):
                pending.receipt.set_exception(TimeoutError())
            if pending.withdrawn:
                self._queue.pop(pending, None)
        if later < math.inf:
            self._expire_at(later, max(later - now, DEADLINE_TICK))

    async def close(self) -> None:
        """Write the queue, with one attempt per batch, and refuse further events. Idempotent.

        Takes at most `CLOSE_SECONDS`. Events that the store did not confirm by then fail with a StoreError.
        """
        self._closing = True
        self._wake.set()
        if self._task is not None:
            _, unfinished = await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            for task in unfinished:
                task.cancel()
                await asyncio.wait([task])
        self.state = WriterState.CLOSED
        if self.counts.lost_decisions:
            log.error(
                "%d decisions are lost: clients received them as degraded, and the store did not accept them.",
                self.counts.lost_decisions,
            )

    async def _run(self) -> None:
        try:
            while self._queue or not self._closing:
                if self._queue:
                    self.state = WriterState.COLLECTING
                    await self._collect()
                    await self._write(self._take_batch())
                else:
                    self.state = WriterState.IDLE
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._abandon()

    def _take_batch(self) -> Sequence[Pending]:
        queued = iter(self._queue)
        batch = list(islice(queued, BATCH_EVENTS))
        batch += takewhile(lambda pending: is_later_slot(pending.event), queued)  # one commit for all slots
        for pending in batch:
            del self._queue[pending]
        return [pending for pending in batch if not pending.withdrawn]

    def _abandon(self) -> None:
        """Fail all events that are left when the task ends.

        The task ends if its event loop stops, or if the store does not answer in time at `close`.
        """
        self._task, self.state, self._next_deadline = None, WriterState.IDLE, math.inf
        if self._timer is not None:
            self._timer.cancel()
        if self.depth:
            log.error("It is unknown whether %d events were written: the store did not answer in time.", self.depth)
        batch, queue = self._batch, list(self._queue)
        self._batch = ()
        self._queue.clear()
        self._finish(batch, StoreError(NO_ANSWER))
        self._finish(queue, StoreError(CLOSED))

    async def _collect(self) -> None:
        """Wait until an iteration of the event loop adds no event, or the batch is complete."""
        size, until = 0, time.monotonic() + COLLECT_SECONDS
        while size < len(self._queue) < BATCH_EVENTS and time.monotonic() < until:
            size = len(self._queue)
            await asyncio.sleep(0)

    async def _write(self, batch: Sequence[Pending]) -> None:
        """Append a batch.

        Decisions that the store fails to write are retried until the writer is closed.
        """
        self.state, self._batch = WriterState.WRITING, batch
        while self._batch:
            last_attempt, began = self._closing, time.monotonic()
            outcomes = await self._append([pending.event for pending in self._batch])
            self.counts.seconds += time.monotonic() - began
            self.counts.batches += 1
            retry = []
            for pending, outcome in zip(self._batch, outcomes, strict=True):
                if isinstance(outcome, StoreError) and isinstance(pending.event, Decision) and not last_attempt:
                    retry.append(pending)
                else:
                    self._finish([pending], outcome)
            self._batch = retry
            if retry:
                self.counts.retried_batches += 1
                await self._wait_for_retry()

    async def _wait_for_retry(self) -> None:
        self.state = WriterState.RETRYING
        refused = [pending for pending in self._queue if not isinstance(pending.event, Decision)]
        for pending in refused:
            del self._queue[pending]
        self._finish(refused, StoreError(UNAVAILABLE))
        self._wake.clear()  # only `close` sets it while the writer is retrying
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), 0 if self._closing else RETRY_SECONDS)

    async def _append(self, events: Sequence[Event]) -> Sequence[WriteResult]:
        """Return a receipt or an error for each event.

        After a StoreError no further event is tried.
        """
        if not events:
            return []
        try:
            receipts = await self._store.append(events)
        except StoreError as error:
            self._failed_at = time.monotonic()
            self._failures.failed(WRITING, error)
            return [error] * len(events)
        except Exception as error:
            if len(events) > 1:
                return await self._append_halves(events)
            if not isinstance(error, GlbanditsError):
                log.error("The store cannot write event %s", events[0].event_id, exc_info=error)
            return [error]
        if self._failures.failing:
            self._failures.succeeded(WRITING)
        return receipts

    async def _append_halves(self, events: Sequence[Event]) -> Sequence[WriteResult]:
        """Write a batch in two halves, because the store refused one of its events."""
        middle = len(events) // 2
        first = await self._append(events[:middle])
        unwritten = next((outcome for outcome in first if isinstance(outcome, StoreError)), None)
        if unwritten is not None:  # a reward must not be written before its decision
            return [*first, *[unwritten] * (len(events) - middle)]
        return [*first, *await self._append(events[middle:])]

    def _finish(self, events: Iterable[Pending], outcome: WriteResult) -> None:
        """Resolve the futures of events with the same outcome."""
        if isinstance(outcome, Exception) and not isinstance(outcome, GlbanditsError):
            outcome = StoreError(f"The store cannot write the event: {outcome!r}")
        for pending in events:
            if isinstance(pending.event, Decision):
                self._forget_decision(pending.event, pending.size)
            waits = not pending.receipt.done() and not pending.receipt.get_loop().is_closed()
            if isinstance(outcome, Exception):
                self.counts.failed_events += isinstance(outcome, StoreError)
                self.counts.lost_decisions += not waits and isinstance(pending.event, Decision)
                if waits:
                    pending.receipt.set_exception(outcome)
            else:
                self.counts.events += 1
                if waits:
                    pending.receipt.set_result(outcome)

    def _forget_decision(self, decision: Decision, size: int) -> None:
        self._bytes -= size
        name = (decision.loop, decision.event_id, decision.slot)
        if self._decisions.get(name) is decision:
            del self._decisions[name]
