"""What a loop has done of late, in bounded memory: a tally for each bucket of time.

The statistics are no truth: they are counted from the log, again after every start, as far back as `MOST_RECALLED`, and
what is deleted from the log is in none of them.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from threading import Lock
from typing import NamedTuple

from glbandits.serving.domain.events import SettledDecision
from glbandits.serving.domain.loop_config import SECOND
from glbandits.serving.domain.reward_aggregates import Tally, tally_of
from glbandits.serving.storage.event_store import EventStore

MOST_RECALLED, PAGE = 20_000, 500
"""Decisions of the log that are counted after a start, and so many at a time."""
MOST_POINTS, FEW_POINTS, THIN = 100, 12, 20
"""Buckets of time that a view has at most. It has no more than a few while they are worth fewer decisions of the
baseline, on average: what is said of it would be noise."""
MINUTE = 60 * SECOND
END_OF_TIME = 2**62
"""When the reward windows of all decisions are over, in microseconds."""


class Window(StrEnum):
    """How far back one looks: from the newest decision that was learned."""

    HOUR = "hour"
    DAY = "day"
    ALL = "all"


class View(NamedTuple):
    """What happened in a window."""

    whole: Tally
    """All of it."""
    width: int
    """Microseconds of each bucket."""
    points: dict[int, Tally]
    """The buckets in which anything happened, by when they begin, the oldest first."""


class Timeline:
    """A tally for each bucket of time in which anything happened, and at most so many.

    Args:
        width: microseconds of a bucket.
        most: buckets. When there are more, all become twice as wide; or those before the window are forgotten.
        forgets: whether it is a window.
    """

    def __init__(self, width: int, most: int, *, forgets: bool) -> None:
        self.width, self._most, self._forgets = width, most, forgets
        self.buckets: dict[int, Tally] = {}

    def add(self, timestamp: int, tally: Tally) -> None:
        """Count a decision, which need not be the newest."""
        bucket = self.buckets.get(timestamp // self.width)
        if bucket is not None:
            bucket.add(tally)
            return
        self.buckets[timestamp // self.width] = _joined({0: tally}, 1)[0]
        if self._forgets:
            self.forget_before((max(self.buckets) - self._most + 1) * self.width)
        while len(self.buckets) > self._most:
            self.buckets, self.width = _joined(self.buckets, 2), 2 * self.width

    def forget_before(self, timestamp: int) -> None:
        """Forget the buckets that begin before this time."""
        self.buckets = {index: tally for index, tally in self.buckets.items() if index * self.width >= timestamp}

    def view(self) -> View:
        """What it holds, in at most `MOST_POINTS` buckets. It is not changed by what comes next."""
        points, width, whole = self.buckets, self.width, Tally()
        for tally in points.values():
            whole.add(tally)
        while len(points) > MOST_POINTS or (len(points) > FEW_POINTS and whole.baseline_worth < THIN * len(points)):
            points, width = _joined(points, 2), 2 * width
        return View(whole, width, {index * width: tally for index, tally in sorted(_joined(points, 1).items())})


def _joined(buckets: dict[int, Tally], several: int) -> dict[int, Tally]:
    """Copies of the tallies, in buckets that are several times as wide."""
    joined: dict[int, Tally] = {}
    for index, tally in buckets.items():
        joined.setdefault(index // several, Tally()).add(tally)
    return joined


class LoopStatistics:
    """Counts the decisions that the model of a loop has learned. One thread counts, any may look.

    Args:
        store: has the log.
        loop: the name of the loop.
        learned_through: sequence number of the last decision that the model has learned. `look_back` counts those up
            to it.
    """

    def __init__(self, store: EventStore, loop: str, learned_through: int) -> None:
        self._store, self._loop, self._lock = store, loop, Lock()
        self._last, self._before, self._left = learned_through, learned_through + 1, MOST_RECALLED
        self._first: int | None = None  # of those that were counted
        self._timelines = _empty_timelines()

    def view(self, window: Window) -> View:
        """What happened in a window."""
        with self._lock:
            return self._timelines[window].view()

    def add(self, batch: Sequence[SettledDecision]) -> None:
        """Count decisions that the model has just learned.

        A model that another process has put in place of ours may learn some again: they are counted once.
        """
        self._count(settled for settled in batch if settled.sequence > self._last)
        self._last = max(self._last, batch[-1].sequence)

    def follow(self, learned_through: int, now: int) -> None:
        """Count from the log what the model has learned in another process, and forget what was deleted from it.

        If the store fails, the next call goes on from there.
        """
        self._forget_deleted()
        while self._last < learned_through:
            batch = self._store.settled(self._loop, self._last, now, PAGE)
            self._count(settled for settled in batch if settled.sequence <= learned_through)
            self._last = min(learned_through, batch[-1].sequence) if batch else learned_through

    def look_back(self) -> None:
        """Count from the log what the model had learned before the start. It takes long, once.

        If the store fails, the next call goes on from there.
        """
        while self._left:  # the newest first, so that those which are left out are the oldest
            page = self._store.search(self._loop, "", min(PAGE, self._left), self._before)
            self._count(logged.settled() for logged in page)
            self._left = self._left - len(page) if len(page) == PAGE else 0
            self._before = page[-1].sequence if page else 0

    def _forget_deleted(self) -> None:
        """Forget what is in the log no more. The bucket in which the log now begins goes as a whole."""
        if self._first is None:
            return
        oldest = self._store.settled(self._loop, 0, END_OF_TIME, 1)
        if oldest and oldest[0].sequence <= self._first:
            return
        with self._lock:
            if not oldest or oldest[0].sequence > self._last:
                self._first, self._timelines = None, _empty_timelines()
                return
            self._first = oldest[0].sequence
            for timeline in self._timelines.values():
                timeline.forget_before(oldest[0].decision.timestamp)

    def _count(self, decisions: Iterable[SettledDecision]) -> None:
        for settled in decisions:
            tally = tally_of(settled)
            self._first = settled.sequence if self._first is None else min(self._first, settled.sequence)
            with self._lock:  # for each, so that who looks need not wait long
                for timeline in self._timelines.values():
                    timeline.add(settled.decision.timestamp, tally)


def _empty_timelines() -> dict[Window, Timeline]:
    return {
        Window.HOUR: Timeline(15 * SECOND, 240, forgets=True),
        Window.DAY: Timeline(5 * MINUTE, 288, forgets=True),
        Window.ALL: Timeline(SECOND, 500, forgets=False),
    }
