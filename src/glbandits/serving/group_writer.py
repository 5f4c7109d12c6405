"""One thread that writes events in groups: many callers, one commit."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread
from typing import NamedTuple, Protocol, TypeAlias

from glbandits.errors import InvalidInput, number, whole
from glbandits.serving.errors import QueueFull, StoreError
from glbandits.serving.events import Decision, Event, Receipt
from glbandits.serving.unwritten import Unwritten, size_of
from glbandits.serving.waiters import Outcome, Waiter, Waiting, settle_all

log = logging.getLogger(__name__)

CLOSED = "the writer is closed: the service is shutting down; send the event again later"
AGAIN = 0.1
"""Seconds after which decisions that the store failed to write are tried again."""
Observer: TypeAlias = Callable[[int, float], None]
"""Told the number of events of a group and the seconds that it took."""


class Appends(Protocol):
    """What a writer needs of a store."""

    def append(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventStore.append`."""


class _Mark(NamedTuple):
    """Not an event: everything before it has been written when it is reached."""

    reached: "Future[None]"
    last: bool = False


@dataclass(frozen=True, kw_only=True)
class WriterCounts:
    """What a writer has done so far."""

    groups: int = 0
    events: int = 0
    """Those that were written or judged: acknowledged ones."""
    refused: int = 0
    """Those that ended in an error."""
    largest: int = 0
    """Events of the largest group."""
    seconds: float = 0.0
    """Spent in the store."""


class GroupWriter:
    """Takes events from any thread or event loop and appends them in groups, in the order in which they came.

    While a group is written the next one gathers: alone, an event is written at once; under load, one commit serves
    many.

    When the store fails, the rewards and activations of the group get the error. The decisions are tried again until
    they are written or the writer is closed: whoever asked may have gone off with an answer that was not safe yet.
    Meanwhile nothing overtakes them, and the queue fills.

    Args:
        store: where to. It stays the caller's, and is not closed.
        queue: events that may wait. More are refused with `QueueFull`.
        queue_bytes: how large the decisions may be, together, that are not written yet. More are refused likewise.
        group: events of a commit, at most.
        linger: seconds that the first event of a group waits for others. 0 takes those that are there.
        observe: told of every group, in the writer's thread.
    """

    def __init__(
        self,
        store: Appends,
        *,
        queue: int = 10_000,
        queue_bytes: int = 256 * 1024 * 1024,
        group: int = 512,
        linger: float = 0.0,
        observe: Observer | None = None,
    ) -> None:
        self._store = store
        self._limit = whole("queue", queue, at_least=1)
        self._most_bytes = whole("queue_bytes", queue_bytes, at_least=1)
        self._group = whole("group", group, at_least=1)
        self._linger = number("linger", linger, at_least=0.0)
        self._observe = observe
        self._counts = WriterCounts()
        self._queue: SimpleQueue[Waiting | _Mark] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[Waiting]] = {}
        self._unwritten = Unwritten()
        self._lock = Lock()
        self._closed = False
        self._closing = Flag()
        self._failed_at: float | None = None
        self._oldest: float | None = None
        # Daemon: a program that forgets to close can end. What was not acknowledged was not promised.
        self._thread = Thread(target=self._run, name="group-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Events that wait."""
        return self._queue.qsize()

    @property
    def counts(self) -> WriterCounts:
        """What was done so far."""
        return self._counts

    def unwritten(self, loop: str, event_id: str, slot: str) -> Decision | None:
        """The decision of this name that waits to be written: the first, if there are several, as it will be kept."""
        return self._unwritten.find((loop, event_id, slot))

    def trouble(self, seconds: float) -> str | None:
        """Why an event might have to wait: the store failed less than so long ago, or one has waited for longer.

        A failure is forgotten after a time, because only another event would show that it is over.
        """
        failed_at, oldest, now = self._failed_at, self._oldest, time.monotonic()
        if failed_at is not None and now - failed_at < seconds:
            return "the last events could not be written"
        if oldest is not None and now - oldest > seconds:
            return f"an event has waited to be written for more than {seconds:g} s"
        return None

    def submit(self, event: Event) -> "Future[Receipt]":
        """Have an event written. The future has its receipt when it is safe; cancelling does nothing."""
        waiter: Future[Receipt] = Future()
        waiter.set_running_or_notify_cancel()
        self._put(Waiting(event, waiter, time.monotonic()))
        return waiter

    def submit_async(self, event: Event) -> Waiter:
        """The same for the running event loop, and cheaper there: it is woken once for each group.

        Who stops waiting for a decision loses the receipt, not the event. A reward or an activation that nobody waits
        for when its turn comes is not written: it was not acknowledged, and may have been sent again.
        """
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop=loop)
        with self._lock:
            gathered = self._gathered.setdefault(loop, [])
            self._check_room(event, 1 + len(gathered))
            gathered.append(Waiting(event, waiter, time.monotonic()))
            self._unwritten.add(event)
        if len(gathered) == 1:
            # All that the loop submits before it comes round again is handed over at once: the writer is woken once,
            # and the two threads do not fight over Python's lock at every event.
            loop.call_soon(self._hand_over)
        return waiter

    def withdraw(self, waiter: Waiter) -> bool:
        """End a wait with a TimeoutError, and for a reward or an activation be sure that it is not written.

        If the writer has begun with it, nothing is done, and False returned: what becomes of it is known soon.
        """
        with self._lock:
            if waiter.taken:
                return False
            waiter.set_exception(TimeoutError())
            return True

    def _hand_over(self) -> None:
        with self._lock:
            self._put_gathered()

    def _put_gathered(self) -> None:
        for gathered in self._gathered.values():
            for waiting in gathered:
                self._queue.put(waiting)
        self._gathered.clear()

    def flush(self) -> None:
        """Wait until all that was submitted before is written."""
        reached: Future[None] = Future()
        with self._lock:
            if self._closed:
                return
            self._put_gathered()
            self._queue.put(_Mark(reached))
        reached.result()

    def close(self) -> None:
        """Write all that waits, and end. What the store fails to write now is lost. A second time does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._put_gathered()
                self._queue.put(_Mark(Future(), last=True))
        self._closing.set()
        self._thread.join()

    def _put(self, waiting: Waiting) -> None:
        # With the lock no event comes after the last mark, where nobody would write it.
        with self._lock:
            self._check_room(waiting.event, 1)
            self._queue.put(waiting)
            self._unwritten.add(waiting.event)

    def _check_room(self, event: Event, more: int) -> None:
        if self._closed:
            raise StoreError(CLOSED)
        if self._queue.qsize() + more > self._limit:
            raise QueueFull(f"{self._limit} events wait to be written, as many as may; send it again later")
        size = size_of(event)
        if size and self._unwritten.bytes + size > self._most_bytes:
            raise QueueFull(
                f"decisions of {self._unwritten.bytes:,} bytes wait to be written, and {self._most_bytes:,} may; "
                "send it again later"
            )

    def _run(self) -> None:
        while True:
            taken = self._take()
            waiting = [item for item in taken if isinstance(item, Waiting)]
            if waiting:
                self._write(waiting)
            for mark in (item for item in taken if isinstance(item, _Mark)):
                mark.reached.set_result(None)
                if mark.last:
                    return

    def _take(self) -> list[Waiting | _Mark]:
        taken = [self._queue.get()]
        if self._linger:
            time.sleep(self._linger)
        # Nobody else takes: what is there now is still there when it is asked for.
        taken += [self._queue.get() for _ in range(min(self._group - 1, self._queue.qsize()))]
        return taken

    def _write(self, waiting: Sequence[Waiting]) -> None:
        self._oldest = min(item.since for item in waiting)
        waiting = self._begun(waiting)
        while waiting:
            last = self._closing.is_set()
            waiting = self._try(waiting, last=last)
            if waiting:
                self._closing.wait(AGAIN)
        self._oldest = None

    def _begun(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Those that are to be written, which from now on cannot be withdrawn."""
        begun = []
        with self._lock:
            for item in waiting:
                if isinstance(item.waiter, Waiter):
                    if item.waiter.done() and not isinstance(item.event, Decision):
                        continue
                    item.waiter.taken = True
                begun.append(item)
        return begun

    def _try(self, waiting: Sequence[Waiting], *, last: bool) -> list[Waiting]:
        """Write a group, tell those whose event is done with, and return those that are to be tried again."""
        began = time.perf_counter()
        outcomes = self._append([item.event for item in waiting])
        seconds = time.perf_counter() - began
        again, done = [], []
        for item, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, StoreError) and isinstance(item.event, Decision) and not last:
                again.append(item)
            else:
                done.append((item, outcome))
        self._count(done, seconds)
        with self._lock:
            self._unwritten.remove(item.event for item, _ in done)
        settle_all(done)
        if self._observe is not None:
            try:
                self._observe(len(waiting), seconds)
            except Exception:  # whoever watches must not stop the writing
                log.exception("the observer of the group writer failed")
        return again

    def _count(self, done: Sequence[tuple[Waiting, Outcome]], seconds: float) -> None:
        refused = [item for item, outcome in done if isinstance(outcome, Exception)]
        lost = sum(isinstance(item.event, Decision) for item in refused)
        if lost:
            log.error("%d decisions could not be written", lost)
        before = self._counts
        self._counts = WriterCounts(
            groups=before.groups + 1,
            events=before.events + len(done) - len(refused),
            refused=before.refused + len(refused),
            largest=max(before.largest, len(done)),
            seconds=before.seconds + seconds,
        )

    def _append(self, events: Sequence[Event]) -> Sequence[Outcome]:
        try:
            receipts = self._store.append(events)
        except InvalidInput as error:
            # One event is wrong, and the others must not suffer for it: halves, until it is alone.
            middle = len(events) // 2
            return [*self._append(events[:middle]), *self._append(events[middle:])] if middle else [error]
        except Exception as error:
            if self._failed_at is None:
                log.exception("the store failed to write %d events", len(events))
            self._failed_at = time.monotonic()
            return [error] * len(events)
        self._failed_at = None
        return receipts
