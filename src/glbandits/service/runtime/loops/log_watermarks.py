"""How long decisions have been in the log, by a monotonic clock.

Timestamps come from the wall clock, which may step back, so that a timestamp may lie in the future. `Loop.learn` closes
the reward window of such a decision when it has been in the log for as long as the window.
"""

import time
from collections.abc import Callable

WATERMARKS_PER_WINDOW = 64
"""A decision is settled at most this part (1/64) of the reward window too late."""
MAX_WATERMARKS = 4 * WATERMARKS_PER_WINDOW


class LogWatermarks:
    """Records which decisions were in the log at which time.

    One thread may change it, any thread may read it.

    Args:
        monotonic: seconds of a monotonic clock.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._watermarks: tuple[tuple[int, float], ...] = ()
        """Sequence numbers, with a time of the monotonic clock at which the decisions up to there were in the log."""

    def update(self, last: int, learned_through: int, window: float) -> None:
        """Add a watermark for the newest decision, and drop those of learned decisions.

        Args:
            last: sequence number of the newest decision.
            learned_through: sequence number of the last decision that the model has learned.
            window: the reward window in seconds.
        """
        now = self._monotonic()
        watermarks = [watermark for watermark in self._watermarks if watermark[0] > learned_through]
        newest, since = watermarks[-1] if watermarks else (learned_through, float("-inf"))
        if last > newest and now - since >= window / WATERMARKS_PER_WINDOW:
            watermarks.append((last, now))
        if len(watermarks) > MAX_WATERMARKS:  # nothing was learned for several windows
            del watermarks[1:-1:2]
        self._watermarks = tuple(watermarks)

    def clear(self) -> None:
        """Drop all watermarks, so that the time of all decisions in the log starts now."""
        self._watermarks = ()

    def logged_for(self, seconds: float) -> int:
        """Return the last sequence number that has been in the log for so many seconds, or 0."""
        latest = self._monotonic() - seconds
        return max((sequence for sequence, since in self._watermarks if since < latest), default=0)

    def age_after(self, learned_through: int) -> float:
        """Return the seconds since the first watermark after a sequence number, or 0."""
        now = self._monotonic()
        return max((now - since for sequence, since in self._watermarks if sequence > learned_through), default=0.0)
