"""The wall clock, which a step of the system's clock changes only after it has lasted."""

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

SECOND = 1_000_000
TOLERANCE = SECOND
"""Microseconds by which the clock may be corrected at once."""
STEP_SECONDS = 60.0
"""Seconds for which a larger step must last before it counts."""


class SteadyClock:
    """Microseconds since 1970, by a monotonic clock that follows the wall clock. May be called from any thread.

    One wrong look at the wall clock closes no reward window: a step counts only when it has lasted for `STEP_SECONDS`.
    Until then time goes on as before the step.

    Args:
        wall: microseconds since 1970.
        monotonic: seconds of a clock that never steps.
    """

    def __init__(self, wall: Callable[[], int], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - self._elapsed()
        self._step: tuple[int, int] | None = None
        """The offset after a step of the wall clock, and the time since when it has had this offset."""

    def _elapsed(self) -> int:
        return round(self._monotonic() * SECOND)

    def __call__(self) -> int:
        """Return the microseconds since 1970."""
        elapsed = self._elapsed()
        offset = self._wall() - elapsed
        if abs(offset - self._offset) <= TOLERANCE:
            self._offset, self._step = offset, None
            return elapsed + offset
        step = self._step
        if step is None or abs(offset - step[0]) > TOLERANCE:
            self._step = offset, elapsed
        elif elapsed - step[1] > STEP_SECONDS * SECOND:
            log.warning(
                "The clock of the system stepped by %+.0f s, and has stayed so for %.0f s. The server follows it.",
                *((offset - self._offset) / SECOND, STEP_SECONDS),
            )
            self._offset, self._step = offset, None
        return elapsed + self._offset
