"""Counting units for the comparison of treatment with control, in the order of their first decisions.

A unit counts when its window has closed, and only in whole blocks, so the result does not depend on when one looks.
Before it counts it is sealed: a number of it that is written later is late, so that a recount of the log is equal.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, takewhile
from threading import Event
from typing import NamedTuple

from glbandits.service.domain.events import UnitStart
from glbandits.service.domain.groups.experiment import REWARD
from glbandits.service.domain.groups.metric_comparison import MetricComparison
from glbandits.service.domain.groups.unit_outcomes import UNIT_DECISIONS, UnitLog
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.runtime.loops.log_watermarks import LogWatermarks
from glbandits.service.storage.event_store import EventStore

GRACE = 10.0
"""Seconds from the end of a window until its units count: after `REWARD_TIMEOUT` no write of a number is pending."""
PAGE = 32
"""Units that are read at a time."""
LONGEST_LOOK = 0.2
"""Seconds after which a look ends. It continues at the next tick of the learner."""


class Scan(NamedTuple):
    """What is known of the units after a sequence number."""

    through: int
    """There is no unit up to this sequence number."""
    next: UnitStart | None
    """The next unit; None if it is not known."""


class UnitCounter:
    """Reads units from the log of a loop. For one thread at a time.

    Args:
        loop_name: the name of the loop.
        store: has the log.
        monotonic: seconds of a clock that never steps.
        stop: when it is set, a look ends soon.
    """

    def __init__(self, loop_name: str, store: EventStore, monotonic: Callable[[], float], stop: Event) -> None:
        self._loop_name, self._store, self._monotonic, self._stop = loop_name, store, monotonic, stop
        self._watermarks: dict[float, LogWatermarks] = {}
        """By the length of the window."""
        self.has_counted_all = False
        """Whether the log had no more units at the last look."""
        self._scans: dict[int, Scan] = {}
        """By the sequence number after which units are read, so that an open window costs no query."""

    def count(self, metrics: dict[str, MetricComparison], now: int, learned_through: int) -> bool:
        """Count units for all metrics, a page of each in turn. Returns whether time ran out before the last one.

        Args:
            metrics: the comparisons by name. They are replaced.
            now: the present timestamp.
            learned_through: the last decision that the model has learned.
        """
        end, last = self._monotonic() + LONGEST_LOOK, self._store.last_sequence(self._loop_name)
        self._note_time(metrics.values(), last)
        behind = list(metrics)
        while behind and not self._stop.is_set():
            ready = {name: self._ready(metrics[name], now, last) for name in behind}
            pages = self._pages(ready, metrics, learned_through)
            for name, page in pages.items():
                settings = metrics[name].settings
                outcomes = ((unit.start, unit.outcome(name, settings)) for unit in page)
                metrics[name] = metrics[name].with_units(name, outcomes, now)
            behind = [name for name, page in pages.items() if len(page) == PAGE]
            if self._monotonic() > end:
                break
        self._scans = {own.after: self._scans[own.after] for own in metrics.values() if own.after in self._scans}
        self.has_counted_all = all(
            scan is not None and scan.next is None for scan in (self._scans.get(own.after) for own in metrics.values())
        )
        return bool(behind)

    def _note_time(self, metrics: Iterable[MetricComparison], last: int) -> None:
        """Note how long decisions have been in the log, for units whose timestamps lie in the future."""
        after: dict[float, int] = {}
        for own in metrics:
            window = own.settings.seconds
            after[window] = min(own.after, after.get(window, own.after))
        self._watermarks = {window: self._watermarks.get(window, LogWatermarks(self._monotonic)) for window in after}
        for window, watermarks in self._watermarks.items():
            watermarks.update(last, after[window], window + GRACE)

    def _ready(self, metric: MetricComparison, now: int, last: int) -> list[UnitStart]:
        """Return the next units of a metric whose windows have closed, at most `PAGE`."""
        wait = metric.settings.seconds + GRACE
        closed_before = now - round(wait * SECOND)
        logged = self._watermarks[metric.settings.seconds].logged_for(wait)

        def is_ready(start: UnitStart) -> bool:
            return start.since < closed_before or start.first <= logged

        scan = self._scans.get(metric.after, Scan(metric.after, None))
        if scan.next is not None and not is_ready(scan.next):
            return []
        starts = self._store.units_after(self._loop_name, scan.through, PAGE)
        self._scans[metric.after] = Scan(max(last, scan.through), None) if not starts else Scan(scan.through, starts[0])
        return list(takewhile(is_ready, starts))

    def _pages(
        self, ready: dict[str, list[UnitStart]], metrics: dict[str, MetricComparison], learned_through: int
    ) -> dict[str, list[UnitLog]]:
        """Seal units for their metrics, read them, and return those that can be counted by metric."""
        sealed = {name: starts[-1].first for name, starts in ready.items() if starts and name != REWARD}
        self._store.seal_metrics(self._loop_name, sealed)  # first, so that a number that comes now is late
        starts = dict.fromkeys(chain.from_iterable(ready.values()))  # metrics with the same window share them
        units = read_units(self._store, list(starts))
        pages = {name: [units[start.first] for start in own] for name, own in ready.items()}
        if REWARD in pages:
            settings = metrics[REWARD].settings
            learned = takewhile(lambda unit: unit.last_decision(settings) <= learned_through, pages[REWARD])
            pages[REWARD] = list(learned)
        return pages


def read_units(store: EventStore, starts: Sequence[UnitStart]) -> dict[int, UnitLog]:
    """Return what the log has of some units, by the sequence numbers of their first decisions."""
    units = {start.first: UnitLog(start) for start in starts}
    for first, logged in store.decisions_of_units(list(units), UNIT_DECISIONS):
        units[first].add(logged)
    return units
