"""How long decisions have been in the log, by a monotonic clock.

Timestamps come from the wall clock, which may step back, so that a timestamp may lie in the future. `Loop.learn` closes
the reward window of such a decision when it has been in the log for as long as the window.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

WATERMARKS_PER_WINDOW = 64
"""A decision is settled at most this part (1/64) of the reward window too late."""
MAX_WATERMARKS = 4 * WATERMARKS_PER_WINDOW


class Watermark(NamedTuple):
    """All decisions up to `sequence` were in the log at `time` of the monotonic clock."""

    sequence: int
    time: float


class LogWatermarks:
    """Records which decisions were in the log at which time.

    One thread may change it, any thread may read it.

    Args:
        monotonic: seconds of a monotonic clock.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._watermarks: tuple[Watermark, ...] = ()

    def update(self, last: int, learned_through: int, window: float) -> None:
        """Add a watermark for the newest decision, and drop those of learned decisions.

        Args:
            last: sequence number of the newest decision.
            learned_through: sequence number of the last decision that the model has learned.
            window: the reward window in seconds.
        """
        watermarks, now = (
            [watermark for watermark in self._watermarks if watermark.sequence > learned_through],
            self._monotonic(),
        )
        newest = watermarks[-1] if watermarks else Watermark(learned_through, float("-inf"))
        if last > newest.sequence and now - newest.time >= window / WATERMARKS_PER_WINDOW:
            watermarks.append(Watermark(last, now))
        if len(watermarks) > MAX_WATERMARKS:  # nothing was learned for several windows
            del watermarks[1:-1:2]
        self._watermarks = tuple(watermarks)

    def clear(self) -> None:
        """Drop all watermarks, so that the time of all decisions in the log starts now."""
        self._watermarks = ()

    def logged_for(self, seconds: float) -> int:
        """Return the last sequence number that has been in the log for so many seconds, or 0."""
        latest = self._monotonic() - seconds
        return max((watermark.sequence for watermark in self._watermarks if watermark.time < latest), default=0)

    def age_after(self, learned_through: int) -> float:
        """Return the seconds since the first watermark after a sequence number, or 0."""
        times = [watermark.time for watermark in self._watermarks if watermark.sequence > learned_through]
        return self._monotonic() - min(times) if times else 0.0
