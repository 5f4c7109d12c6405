"""How long decisions have been in the log, by a clock that never steps."""

import time
from collections.abc import Callable
from typing import NamedTuple

MARKS_PER_WINDOW = 64
"""A decision is settled at most this fraction of the reward window too late."""
MOST_MARKS = 4 * MARKS_PER_WINDOW


class Mark(NamedTuple):
    """All decisions up to `sequence` were in the log at `time`, in seconds of the monotonic clock."""

    sequence: int
    time: float


class LogMarks:
    """Remembers which decisions were in the log at which time. One thread changes it, any thread may read it.

    The wall clock may step back, and timestamps of decisions may lie in the future. Marks tell when the reward window
    of a decision is over all the same.

    Args:
        monotonic: seconds since any moment.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._marks: tuple[Mark, ...] = ()

    def update(self, last: int, learned_through: int, window: float) -> None:
        """Note that the log has the decision `last` now, and forget decisions that the model has learned.

        Args:
            last: sequence number of the newest decision.
            learned_through: sequence number of the last decision that the model has learned.
            window: seconds of the reward window.
        """
        marks, now = [mark for mark in self._marks if mark.sequence > learned_through], self._monotonic()
        newest = marks[-1] if marks else Mark(learned_through, float("-inf"))
        if last > newest.sequence and now - newest.time >= window / MARKS_PER_WINDOW:
            marks.append(Mark(last, now))
        if len(marks) > MOST_MARKS:  # nothing was learned for several windows
            del marks[1:-1:2]
        self._marks = tuple(marks)

    def clear(self) -> None:
        """Forget all marks: the reward window of all decisions begins now."""
        self._marks = ()

    def logged_for(self, seconds: float) -> int:
        """The last sequence number that has been in the log for longer than so many seconds; 0 if there is none."""
        latest = self._monotonic() - seconds
        return max((mark.sequence for mark in self._marks if mark.time < latest), default=0)

    def age_after(self, learned_through: int) -> float:
        """Seconds since the oldest decision after this sequence number was first noted; 0 if there is none."""
        times = [mark.time for mark in self._marks if mark.sequence > learned_through]
        return self._monotonic() - min(times) if times else 0.0
