"""Writes events in groups: many callers, one commit; at once if that takes no time, else in a thread."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock, Thread
from typing import Protocol

from glbandits.errors import InvalidInput, whole
from glbandits.serving.domain.errors import QueueFull, StoreError
from glbandits.serving.domain.events import Decision, Event, Receipt
from glbandits.serving.runtime.pending_events import Unwritten, size_of
from glbandits.serving.runtime.write_batch import FULL, Done, Outcome, Turn, Waiter, Waiting

log = logging.getLogger(__name__)

CLOSED = "the writer is closed: the service is shutting down; send the event again later"
AGAIN = 0.1
"""Seconds after which decisions that the store failed to write are tried again."""
QUEUE_BYTES = 256 * 1024 * 1024
QUICK = 0.02
"""Seconds: after a commit that took longer, the thread writes, until one of its own was quicker."""
MOST_AT_ONCE = 1024 * 1024
"""Bytes of decisions that the event loop writes itself: it does nothing else meanwhile."""


class Appends(Protocol):
    """What a writer needs of a store."""

    def append(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventStore.append`."""

    def append_at_once(self, events: Sequence[Event]) -> Sequence[Receipt] | None:
        """See `EventStore.append_at_once`."""


@dataclass(frozen=True, kw_only=True)
class WriterCounts:
    """What a writer has done so far."""

    groups: int = 0
    events: int = 0
    """Those that were written or judged: acknowledged ones."""
    refused: int = 0
    """Those that ended in an error."""
    failures: int = 0
    """Times that the store failed to write a group: its decisions were tried again."""
    seconds: float = 0.0
    """Spent in the store."""


class BatchWriter:
    """Takes events from an event loop and appends them in groups, in the order in which they came.

    What the event loop submits in one turn is written by the loop itself before it goes on, if the store can do that
    without waiting for a disk or for another writer: two threads that take turns at every group cost more than the
    commit does. Else, and as long as commits are slow, a thread writes, and deciding goes on whatever the store does.
    While a group is written the next one gathers. A writer serves one event loop; when that is gone, another may take
    its place.

    When the store fails, the rewards and activations of the group get the error. The decisions are tried again until
    they are written or the writer is closed: whoever asked may have gone off with an answer that was not safe yet.
    Meanwhile nothing overtakes them, and the queue fills.

    Args:
        store: where to. It stays the caller's, and is not closed.
        queue: events that may wait. More are refused with `QueueFull`.
        queue_bytes: how large the decisions may be, together, that are not written yet. More are refused likewise.
    """

    def __init__(
        self,
        store: Appends,
        *,
        queue: int = 10_000,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._store = store
        self._limit = whole("queue", queue, at_least=1)
        self._most_bytes = whole("queue_bytes", queue_bytes, at_least=1)
        self._counts = WriterCounts()
        self._turn: Turn | None = None
        self._gathered: list[Turn] = []
        """What waits until the thread is free."""
        self._busy = self._closed = False
        """The first: whether the thread has something to write."""
        self._unwritten = Unwritten()
        self._lock = Lock()
        self._queue: SimpleQueue[list[Turn] | None] = SimpleQueue()
        self._closing = Flag()
        self._failed_at: float | None = None
        self._quick = True
        """Whether the last commit was."""
        self._oldest: float | None = None
        # Daemon: a program that forgets to close can end. What was not acknowledged was not promised.
        self._thread = Thread(target=self._run, name="group-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Events that wait, or are being written."""
        return self._unwritten.events + (len(self._turn.waiting) if self._turn is not None else 0)

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

    def submit(self, event: Event) -> Waiter:
        """Have an event written, for the running event loop, which hears of it when the event is safe.

        Who stops waiting for a decision loses the receipt, not the event. A reward or an activation that nobody waits
        for when its turn comes is not written: it was not acknowledged, and may have been sent again.
        """
        loop, size = asyncio.get_running_loop(), size_of(event)
        self._check_room(size)
        turn = self._turn
        if turn is None or turn.loop is not loop:
            self._hand_over(here=False)  # what an event loop left that is gone
            turn = self._turn = Turn(loop)
            loop.call_soon(self._come_round)
        waiter = Waiter(loop=loop)
        waiter.turn = turn
        turn.waiting.append(Waiting(event, waiter))
        turn.bytes += size
        return waiter

    def _check_room(self, size: int) -> None:
        if self._closed:
            raise StoreError(CLOSED)
        if self.depth >= self._limit:
            raise QueueFull(f"{self._limit} events wait to be written, as many as may; send it again later")
        waiting = self._unwritten.bytes + (self._turn.bytes if self._turn is not None else 0)
        if size and waiting + size > self._most_bytes:
            raise QueueFull(
                f"decisions of {waiting:,} bytes wait to be written, and {self._most_bytes:,} may; send it again later"
            )

    def _come_round(self) -> None:
        """The event loop has done all that was there to do."""
        if self._turn is not None and self._turn.goes_on():
            self._turn.loop.call_soon(self._come_round)
        else:
            self._hand_over(here=True)

    def _hand_over(self, *, here: bool) -> None:
        """Write the turn, or have it written. `here` says whether this is the thread of its event loop."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        with self._lock:
            if here and not self._gathered and self._written_at_once([turn]):
                return
            self._unwritten.add(turn.events())
            self._gathered.append(turn)
            if not self._busy:
                self._give_to_thread()

    def _written_at_once(self, turns: Sequence[Turn]) -> bool:
        """Write turns here and now, if nothing is to be written before them, they are small, and the store can."""
        large = sum(turn.bytes for turn in turns) > MOST_AT_ONCE or sum(len(turn.waiting) for turn in turns) > FULL
        if self._busy or large or not self._quick:
            return False
        began = time.perf_counter()
        waiting, given_up = _begun(turns)
        try:
            receipts = self._store.append_at_once([one.event for one in waiting]) if waiting else []
        except Exception:  # The thread will see the same, and knows what to do.
            return False
        finally:
            self._quick = time.perf_counter() - began < QUICK
        if receipts is None:
            return False
        self._failed_at = None
        done: list[tuple[Waiting, Outcome]] = list(zip(waiting, receipts, strict=True))
        self._count(done, time.perf_counter() - began, failed=False)
        _tell_here([*done, *given_up])
        return True

    def _give_to_thread(self) -> None:
        turns, self._gathered, self._busy = self._gathered, [], True
        self._queue.put(turns)

    def _go_on(self) -> None:
        """In the thread of the event loop: write what has gathered while the other thread was busy."""
        with self._lock:
            gathered = self._gathered
            if not gathered or self._busy:
                return
            if self._closed or not self._written_at_once(gathered):
                self._give_to_thread()
                return
            self._gathered = []
            self._unwritten.remove(event for turn in gathered for event in turn.events())

    def withdraw(self, waiter: Waiter) -> bool:
        """End a wait with a TimeoutError, and for a reward or an activation be sure that it is not written.

        If the writer has begun with it, nothing is done, and False returned: what becomes of it is known soon.
        """
        with self._lock:
            if waiter.turn.taken:
                return False
            waiter.set_exception(TimeoutError())
            return True

    def close(self) -> None:
        """Write all that waits, and end. What the store fails to write now is lost. A second time does nothing."""
        if not self._closed:
            self._closed = True
            self._hand_over(here=False)
            with self._lock:
                self._give_to_thread()
                self._queue.put(None)
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while (turns := self._queue.get()) is not None:
            self._oldest = turns[0].since if turns else None
            with self._lock:
                for turn in turns:
                    turn.taken = True
            waiting, given_up = _begun(turns)
            self._tell(given_up)
            while waiting:
                waiting = self._try(waiting, last=self._closing.is_set())
                if waiting:
                    self._closing.wait(AGAIN)
            self._oldest = None
            self._be_free()

    def _be_free(self) -> None:
        """Let the event loop have what has gathered meanwhile; or go on with it, if that one is gone."""
        with self._lock:
            self._busy = False
            loop = self._gathered[-1].loop if self._gathered else None
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._go_on)
        except RuntimeError:  # It is closed.
            with self._lock:
                if not self._busy:
                    self._give_to_thread()

    def _try(self, waiting: Sequence[Waiting], *, last: bool) -> list[Waiting]:
        """Write a group, tell those whose event is done with, and return those that are to be tried again."""
        began = time.perf_counter()
        outcomes = self._append([item.event for item in waiting])
        seconds = time.perf_counter() - began
        again: list[Waiting] = []
        done: list[tuple[Waiting, Outcome]] = []
        for item, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, StoreError) and isinstance(item.event, Decision) and not last:
                again.append(item)
            else:
                done.append((item, outcome))
        self._quick = seconds < QUICK and not again
        self._count(done, seconds, failed=bool(again))
        self._tell(done)
        return again

    def _tell(self, done: Done) -> None:
        """From the writing thread: have events settled in the threads of their event loops, each woken once."""
        for loop in {waiting.waiter.get_loop() for waiting, _ in done}:
            mine = [one for one in done if one[0].waiter.get_loop() is loop]
            try:
                loop.call_soon_threadsafe(self._settle, mine)
            except RuntimeError:  # It is closed: the events are safe, and nobody waits for them.
                self._unwritten.remove(waiting.event for waiting, _ in mine)

    def _settle(self, done: Done) -> None:
        """In the thread of the event loop: an event is not unwritten any more, and who waits for it hears so."""
        self._unwritten.remove(waiting.event for waiting, _ in done)
        _tell_here(done)

    def _count(self, done: Done, seconds: float, *, failed: bool) -> None:
        refused = [waiting for waiting, outcome in done if isinstance(outcome, Exception)]
        lost = sum(isinstance(waiting.event, Decision) for waiting in refused)
        if lost:
            log.error("%d decisions could not be written", lost)
        before = self._counts
        self._counts = WriterCounts(
            groups=before.groups + 1,
            events=before.events + len(done) - len(refused),
            refused=before.refused + len(refused),
            failures=before.failures + failed,
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


def _begun(turns: Sequence[Turn]) -> tuple[list[Waiting], list[tuple[Waiting, Outcome]]]:
    """What is to be written; and those rewards and activations for which nobody waits any more, which are not."""
    begun: list[Waiting] = []
    given_up: list[tuple[Waiting, Outcome]] = []
    for turn in turns:
        for waiting in turn.waiting:
            if waiting.waiter.done() and not isinstance(waiting.event, Decision):
                given_up.append((waiting, TimeoutError()))
            else:
                begun.append(waiting)
    return begun, given_up


def _tell_here(done: Done) -> None:
    for waiting, outcome in done:
        waiter = waiting.waiter
        if waiter.done():
            continue
        if isinstance(outcome, Exception):
            waiter.set_exception(outcome)
        else:
            waiter.set_result(outcome)
