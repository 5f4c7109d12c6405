"""Progress reports of experiments, with an estimate of the remaining time. `cli.progress` draws them."""

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float, float], None]
"""Called with a label, the work done and the total work."""

MEASURED_SHARE = 0.02
"""The share of a part that must be done before its measured speed replaces the initial guess."""


def no_progress(_label: str, _done: float, _total: float) -> None:
    """Ignore the report."""


class OverallProgress:
    """Combines the progress of consecutive parts into one report.

    Each part has its own unit of work. The combined report is in seconds: elapsed, and expected in total.

    Args:
        report: receives a label, the elapsed seconds and the expected total seconds.
        expected: an initial guess of the seconds of each part, in order.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, report: Progress, expected: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._clock, self._start = report, clock, clock()
        self._guess, self._remaining = expected, dict(expected)
        self._first: dict[str, tuple[float, float]] = {}

    def part(self, name: str) -> Progress:
        """Return the progress function of one part."""

        def update(label: str, done: float, total: float) -> None:
            share, now = (done / total if total > 0 else 1.0), self._clock()
            first_share, first_time = self._first.setdefault(name, (share, now))
            if share - first_share > MEASURED_SHARE:
                self._remaining[name] = (now - first_time) * (1 - share) / (share - first_share)
            else:
                self._remaining[name] = self._guess[name] * (1 - share)
            elapsed = now - self._start
            self._report(label, elapsed, elapsed + sum(self._remaining.values()))

        return update
