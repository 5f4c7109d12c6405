"""Progress of long work, and an estimate of the time that remains."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float, float], None]
"""Called with a label, the work done and the work in all."""

ENOUGH = 0.02
"""The share of a part after which its own speed predicts its end better than the guess it began with."""


def no_progress(_what: str, _done: float, _total: float) -> None:
    """Report nothing."""


class OverallProgress:
    """One report for several parts of work that follow each other.

    Each part counts in a unit of its own. The report is in seconds: those that have passed, and those expected in all.

    Args:
        report: receives a label, the seconds so far and the seconds expected in all.
        expected: the parts in their order, with a first guess of the seconds that each takes.
        clock: seconds that pass.
    """

    def __init__(
        self, report: Progress, expected: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._clock, self._start = report, clock, clock()
        self._remaining = dict(expected)
        self._guess = dict(expected)
        self._first: dict[str, tuple[float, float]] = {}

    def part(self, name: str) -> Progress:
        """The progress function of one part."""

        def update(what: str, done: float, total: float) -> None:
            share, now = (done / total if total > 0 else 1.0), self._clock()
            first_share, first_time = self._first.setdefault(name, (share, now))
            if share - first_share > ENOUGH:
                self._remaining[name] = (now - first_time) * (1 - share) / (share - first_share)
            else:
                self._remaining[name] = self._guess[name] * (1 - share)
            passed = now - self._start
            self._report(what, passed, passed + sum(self._remaining.values()))

        return update

    def expect(self, name: str, seconds: float) -> None:
        """Replace the first guess of a part that has not begun."""
        if name not in self._first:
            self._guess[name] = self._remaining[name] = seconds
