"""Recent statistics of a loop for the dashboard: the totals of time buckets.

The process that learns saves them now and then. After a start the decisions since then are counted from the log, at
most `MAX_HISTORY`. Decisions that are deleted from the log are removed from the statistics.
"""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from glbandits.service.domain.decision_totals import SUMS, DecisionTotals, totals_of
from glbandits.service.domain.events import SettledDecision
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.storage.event_store import EventStore

log = logging.getLogger(__name__)

STATISTICS = "statistics"
"""The kind of the document. Only its latest version is kept."""
SAVE_SECONDS = 300.0
"""Time between two saved documents."""
MAX_HISTORY, PAGE = 20_000, 500
"""Decisions of the log that are counted after a start, and decisions that are read at a time."""
MAX_POINTS, MIN_POINTS, MIN_SAMPLE_SIZE = 100, 12, 20
"""A view has at most `MAX_POINTS` buckets. Above `MIN_POINTS` buckets are joined until the mean effective sample size
of the baseline in a bucket is `MIN_SAMPLE_SIZE`: with less, the estimates of the baseline would be noise."""
MINUTE = 60 * SECOND
END_OF_TIME = 2**62
"""A timestamp at which the reward windows of all decisions have closed."""


class Window(StrEnum):
    """The time that statistics cover, up to the newest decision that was learned."""

    HOUR = "hour"
    DAY = "day"
    ALL = "all"


class View(NamedTuple):
    """The statistics of a window."""

    total: DecisionTotals
    """The totals of the whole window."""
    width: int
    """The length of each bucket in microseconds."""
    points: dict[int, DecisionTotals]
    """Totals of the buckets with decisions, by the start of the bucket, the oldest first."""


class SavedStatistics(msgspec.Struct, frozen=True):
    """The document of the statistics."""

    through: int
    """Sequence number of the last decision that is counted."""
    first: int | None
    timelines: dict[str, tuple[int, dict[int, Any]]]
    """The width and the buckets of each timeline, with the fields of their totals."""


class Timeline:
    """The totals of each time bucket with decisions, for a bounded number of buckets.

    Args:
        width: the length of a bucket in microseconds.
        max_buckets: the largest number of buckets.
        is_sliding: whether the oldest buckets are dropped when there are more. If not, all become twice as long.
    """

    def __init__(self, width: int, max_buckets: int, *, is_sliding: bool) -> None:
        self.width, self._max_buckets, self._is_sliding = width, max_buckets, is_sliding
        self.buckets: dict[int, DecisionTotals] = {}

    def add(self, timestamp: int, totals: DecisionTotals, now: int = END_OF_TIME) -> None:
        """Add the totals of a decision, which need not be the newest.

        A timestamp after `now` comes from a clock that was wrong. It counts as `now`. If the
        buckets are sliding, those after `now` are dropped.
        """
        timestamp = min(timestamp, now)
        bucket = self.buckets.get(timestamp // self.width)
        if bucket is not None:
            bucket.add(totals)
            return
        self.buckets[timestamp // self.width] = _joined({0: totals}, 1)[0]
        if self._is_sliding:
            self.buckets = {index: totals for index, totals in self.buckets.items() if index * self.width <= now}
            self.drop_before((max(self.buckets) - self._max_buckets + 1) * self.width)
        while len(self.buckets) > self._max_buckets:
            self.buckets, self.width = _joined(self.buckets, 2), 2 * self.width

    def merge(self, width: int, buckets: dict[int, DecisionTotals]) -> None:
        """Add buckets of a timeline of the same kind. The wider buckets decide."""
        common = max(self.width, width)
        self.buckets, self.width = _joined(self.buckets, common // self.width), common
        for index, totals in _joined(buckets, common // width).items():
            self.buckets.setdefault(index, DecisionTotals()).add(totals)
        if self._is_sliding and self.buckets:
            self.drop_before((max(self.buckets) - self._max_buckets + 1) * self.width)
        while len(self.buckets) > self._max_buckets:
            self.buckets, self.width = _joined(self.buckets, 2), 2 * self.width

    def drop_before(self, timestamp: int) -> None:
        """Drop the buckets that start before this time."""
        self.buckets = {index: totals for index, totals in self.buckets.items() if index * self.width >= timestamp}

    def view(self) -> View:
        """Return a copy of the totals in at most `MAX_POINTS` buckets."""
        points, width, total = self.buckets, self.width, DecisionTotals()
        for totals in points.values():
            total.add(totals)
        while len(points) > MAX_POINTS or (
            len(points) > MIN_POINTS and total.baseline_sample_size < MIN_SAMPLE_SIZE * len(points)
        ):
            points, width = _joined(points, 2), 2 * width
        return View(total, width, {index * width: totals for index, totals in sorted(_joined(points, 1).items())})


def _joined(buckets: dict[int, DecisionTotals], factor: int) -> dict[int, DecisionTotals]:
    """Return copies of the totals in buckets that are `factor` times as long."""
    joined: dict[int, DecisionTotals] = {}
    for index, totals in buckets.items():
        joined.setdefault(index // factor, DecisionTotals()).add(totals)
    return joined


class LoopStatistics:
    """Statistics of the decisions that the model of a loop has learned.

    One thread may count, any may call `view`.

    Args:
        store: has the log.
        loop_name: the name of the loop.
        learned_through: sequence number of the last decision that the model has learned. `count_history` counts the
            decisions up to it.
        monotonic: seconds of a clock that never steps.
    """

    def __init__(
        self,
        store: EventStore,
        loop_name: str,
        learned_through: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._loop_name, self._lock, self._monotonic = store, loop_name, Lock(), monotonic
        self._has_read_saved, self._history_start = False, 0
        """Whether the saved statistics were read, and the last decision that they count."""
        self._saved_at, self._saved_through = monotonic(), learned_through
        self._counted_through = learned_through
        """Decisions after this sequence number are not counted yet."""
        self._history_end, self._history_left = learned_through + 1, MAX_HISTORY
        """For `count_history`: it counts at most so many decisions before this sequence number."""
        self._first: int | None = None
        """Sequence number of the oldest decision that was counted."""
        self._timelines = _empty_timelines()

    def view(self, window: Window) -> View:
        """Return the statistics of a window."""
        with self._lock:
            return self._timelines[window].view()

    def add(self, batch: Sequence[SettledDecision], now: int) -> None:
        """Count decisions that the model has just learned.

        Decisions that were counted before are skipped: a model that another process has replaced may learn some again.
        """
        self._count((settled for settled in batch if settled.sequence > self._counted_through), now)
        self._counted_through = max(self._counted_through, batch[-1].sequence)

    def catch_up(self, learned_through: int, now: int) -> None:
        """Count decisions that another process has learned, and remove those that were deleted.

        If the store fails, the next call continues.
        """
        self._drop_deleted()
        while self._counted_through < learned_through:
            batch = self._store.settled(self._loop_name, self._counted_through, now, PAGE)
            self._count((settled for settled in batch if settled.sequence <= learned_through), now)
            self._counted_through = min(learned_through, batch[-1].sequence) if batch else learned_through

    def count_history(self, now: int, end: float = math.inf) -> bool:
        """Count the decisions that were learned before the start: those that were saved, and later ones of the log.

        Stops at a time of the monotonic clock. Returns whether all are counted; if not, or if the store fails, the next
        call continues.
        """
        self._read_saved()
        while self._history_left:  # the newest first, so that the oldest are left out
            page = self._store.search(self._loop_name, "", min(PAGE, self._history_left), self._history_end)
            new = [logged for logged in page if logged.sequence > self._history_start]
            self._count((logged.settled() for logged in new), now)
            self._history_left = self._history_left - len(new) if len(new) == PAGE else 0
            self._history_end = page[-1].sequence if page else 0
            if self._monotonic() >= end:
                break
        return not self._history_left

    def _read_saved(self) -> None:
        """Add the saved statistics, unless the model has lost decisions that they count."""
        if self._has_read_saved:
            return
        document = self._store.latest_document(self._loop_name, STATISTICS)
        self._has_read_saved = True
        if document is None:
            return
        try:
            saved = msgspec.msgpack.decode(document.body, type=SavedStatistics)
            parts = {
                Window(name): (width, {index: _totals(fields) for index, fields in buckets.items()})
                for name, (width, buckets) in saved.timelines.items()
            }
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            log.warning(
                "Loop %s: its statistics are counted again, because they cannot be read: %s", self._loop_name, error
            )
            return
        if saved.through >= self._history_end:
            return
        with self._lock:
            for window, (width, buckets) in parts.items():
                self._timelines[window].merge(width, buckets)
            firsts = [first for first in (saved.first, self._first) if first is not None]
            self._first, self._history_start = min(firsts, default=None), saved.through

    def save(self, now: int, *, every: float = SAVE_SECONDS) -> None:
        """Save what is counted, for the next start, if the last time was so many seconds ago and there is more."""
        if self._counted_through <= self._saved_through or self._monotonic() < self._saved_at + every:
            return
        with self._lock:
            timelines = {
                window.value: (own.width, {index: _fields(totals) for index, totals in own.buckets.items()})
                for window, own in self._timelines.items()
            }
            saved = SavedStatistics(self._counted_through, self._first, timelines)
        bodies = {STATISTICS: msgspec.msgpack.encode(saved)}
        self._store.save_documents(self._loop_name, now, bodies, expected_versions={}, latest_only=[STATISTICS])
        self._saved_at, self._saved_through = self._monotonic(), saved.through

    def _drop_deleted(self) -> None:
        """Remove decisions that the log no longer has.

        The whole bucket in which the log now starts is removed.
        """
        if self._first is None:
            return
        oldest = self._store.settled(self._loop_name, 0, END_OF_TIME, 1)
        if oldest and oldest[0].sequence <= self._first:
            return
        with self._lock:
            if not oldest or oldest[0].sequence > self._counted_through:
                self._first, self._timelines = None, _empty_timelines()
                return
            self._first = oldest[0].sequence
            for timeline in self._timelines.values():
                timeline.drop_before(oldest[0].decision.timestamp)

    def _count(self, decisions: Iterable[SettledDecision], now: int) -> None:
        for settled in decisions:
            totals = totals_of(settled)
            self._first = settled.sequence if self._first is None else min(self._first, settled.sequence)
            with self._lock:  # for each decision, so that `view` does not wait long
                for timeline in self._timelines.values():
                    timeline.add(settled.decision.timestamp, totals, now)


def _fields(totals: DecisionTotals) -> tuple[Any, ...]:
    """Return a copy of the fields of totals."""
    return *(getattr(totals, name) for name in SUMS), dict(totals.actions), dict(totals.delays)


def _totals(fields: Sequence[Any]) -> DecisionTotals:
    """Return the totals with these fields. Raises ValueError if there are too many or too few."""
    *sums, actions, delays = fields
    named = dict(zip(SUMS, sums, strict=True))
    return DecisionTotals(**named, actions=defaultdict(int, actions), delays=defaultdict(int, delays))


def _empty_timelines() -> dict[Window, Timeline]:
    return {
        Window.HOUR: Timeline(15 * SECOND, 240, is_sliding=True),
        Window.DAY: Timeline(5 * MINUTE, 288, is_sliding=True),
        Window.ALL: Timeline(SECOND, 500, is_sliding=False),
    }
