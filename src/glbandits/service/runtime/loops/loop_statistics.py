"""Recent statistics of a loop for the dashboard: the totals of time buckets.

The statistics are not stored. After a start they are counted from the log again, for the last `MAX_HISTORY` decisions.
Decisions that are deleted from the log are removed from the statistics.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from threading import Lock
from typing import NamedTuple

from glbandits.service.domain.decision_totals import DecisionTotals, totals_of
from glbandits.service.domain.events import SettledDecision
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.storage.event_store import EventStore

MAX_HISTORY, PAGE = 20_000, 500
"""Decisions of the log that are counted after a start, and decisions that are read at a time."""
MAX_POINTS, MIN_POINTS, MIN_SAMPLE_SIZE = 100, 12, 20
"""A view has at most `MAX_POINTS` buckets. Above `MIN_POINTS` buckets are joined until the mean effective sample size
of the baseline in a bucket is `MIN_SAMPLE_SIZE`: with less, the estimates of the baseline would be noise."""
FIRST_DECISIONS, FIRST_REWARDS = 1000, 100
"""Settled decisions, and rewards of them, from which a range of rewards is proposed, at most."""
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
    """

    def __init__(self, store: EventStore, loop_name: str, learned_through: int) -> None:
        self._store, self._loop_name, self._lock = store, loop_name, Lock()
        self._counted_through = learned_through
        """Decisions after this sequence number are not counted yet."""
        self._history_end, self._history_left = learned_through + 1, MAX_HISTORY
        """For `count_history`: it counts at most so many decisions before this sequence number."""
        self._first: int | None = None
        """Sequence number of the oldest decision that was counted."""
        self._timelines = _empty_timelines()
        self._first_rewards, self._has_first_rewards = list[float](), False

    def view(self, window: Window) -> View:
        """Return the statistics of a window."""
        with self._lock:
            return self._timelines[window].view()

    def first_rewards(self, now: int) -> list[float]:
        """Return the first rewards of decisions without a range. Reads the store until there are enough."""
        if not self._has_first_rewards:
            batch = self._store.settled(self._loop_name, 0, now, FIRST_DECISIONS)
            unlimited = (settled.rewards for settled in batch if settled.decision.reward_range is None)
            self._first_rewards = [value for rewards in unlimited for _, value in rewards][:FIRST_REWARDS]
            self._has_first_rewards = len(self._first_rewards) == FIRST_REWARDS or len(batch) == FIRST_DECISIONS
        return self._first_rewards

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

    def count_history(self, now: int) -> None:
        """Count the decisions in the log that were learned before the start.

        The first call takes long. If the store fails, the next call continues.
        """
        while self._history_left:  # the newest first, so that the oldest are left out
            page = self._store.search(self._loop_name, "", min(PAGE, self._history_left), self._history_end)
            self._count((logged.settled() for logged in page), now)
            self._history_left = self._history_left - len(page) if len(page) == PAGE else 0
            self._history_end = page[-1].sequence if page else 0

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


def _empty_timelines() -> dict[Window, Timeline]:
    return {
        Window.HOUR: Timeline(15 * SECOND, 240, is_sliding=True),
        Window.DAY: Timeline(5 * MINUTE, 288, is_sliding=True),
        Window.ALL: Timeline(SECOND, 500, is_sliding=False),
    }
