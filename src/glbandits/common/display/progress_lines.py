"""Progress for a person who waits at a terminal or in a notebook: lines on stderr, or the bar of a command."""

import math
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

FIRST_SECONDS, NEXT_SECONDS = 2.0, 20.0
"""Seconds until the first line, and from each line to the next."""
LIVE_SECONDS = 0.5
"""Seconds until a live line appears, and from each update of it to the next."""

Bar: TypeAlias = Callable[[str, float, float, float | None], None]
"""Called with a label, the work done, the total work and the seconds left; None if they must be estimated."""

_running: list[threading.Event] = []
"""The blocks that run now. Only the last one, which is inside of the others, prints."""


class WorkCount:
    """Counts work, and reports what is done of the total, which it never exceeds.

    Args:
        report: called with the work done and the total work.
        total: the total work.
    """

    def __init__(self, report: Callable[[int, int], None], total: int) -> None:
        self._report, self._done, self._total = report, 0, total

    def add(self, work: int) -> None:
        """Add work that was done."""
        self._done = min(self._done + work, self._total)
        self._report(self._done, self._total)


def is_watched() -> bool:
    """Whether stderr is a terminal or the output of a notebook.

    Programs that read stderr from a pipe or a file, and other libraries, get no lines.
    """
    try:
        return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


class TimeLeft:
    """Estimates the seconds left from the shares of the work that are done so far.

    The time until a share s is assumed to be proportional to a power of s, because the cost of a row may grow with the
    number of rows before it, or fall when machine code is ready. The second half of the time so far gives the power.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._points, self._start = clock, [(0.0, 0.0)], (0.0, clock())

    def __call__(self, share: float) -> float | None:
        """Return the seconds left when this share is done; None if it is unknown.

        A much smaller share than before starts another piece of work.
        """
        now, (first, start) = self._clock(), self._start
        if share < first + self._points[-1][0] / 2:
            self._points, self._start = [(0.0, 0.0)], (share, now)
            return None
        done, elapsed, rest = share - first, now - start, 1.0 - first
        if done > self._points[-1][0]:
            self._points.append((done, elapsed))
        if done <= 0.0 or elapsed <= 0.0:
            return None
        half, before = self._points[bisect_left(self._points, (done / 2,))]
        power = math.log(elapsed / before) / math.log(done / half) if 0.0 < before < elapsed and half < done else 1.0
        return elapsed * (math.pow(rest / done, min(power, MAX_POWER)) - 1.0)


MAX_POWER = 3.0


def left_text(seconds: float | None) -> str:
    """Return a text that follows a percentage, such as ", about 9 s left"; nothing if it is unknown or none is left."""
    return "" if seconds is None or seconds <= 0.0 else f", about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Return a rounded number of seconds, minutes or hours.

    >>> duration(8.6), duration(200), duration(9000)
    ('9 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(seconds, 1.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress_lines(describe: Callable[[], str], first: float = FIRST_SECONDS) -> Iterator[None]:
    """Print a line if the block takes longer than `first` seconds, and again every `NEXT_SECONDS`.

    Args:
        describe: returns what is being done. Called in another thread. The line adds the elapsed seconds.
        first: seconds until the first line.
    """
    if not is_watched():
        yield
        return
    start, stop = time.monotonic(), threading.Event()

    def print_lines() -> None:
        pause = first
        while not stop.wait(pause):
            pause = NEXT_SECONDS
            if _running[-1:] == [stop]:
                with suppress(ValueError, OSError):  # stderr was closed
                    sys.stderr.write(f"{describe()} ({time.monotonic() - start:.0f} s)\n")
                    sys.stderr.flush()

    _running.append(stop)
    threading.Thread(target=print_lines, name="glbandits-progress", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        _running.remove(stop)


@contextmanager
def drawn_by(bar: Bar) -> Iterator[None]:
    """Let `live_progress` inside the block use this bar."""
    _bars.append(bar)
    try:
        yield
    finally:
        _bars.remove(bar)


_bars: list[Bar] = []


@contextmanager
def live_progress(describe: Callable[[], tuple[str, float, float]]) -> Iterator[None]:
    """Show a label and the seconds left while the block runs: on the bar of a command, or as one line on stderr.

    Args:
        describe: returns the label, the seconds elapsed and the expected total. Called in another thread.
    """
    if not _bars and not is_watched():
        yield
        return
    stop, width = threading.Event(), 0

    def show_line(label: str, _done: float, _total: float, left: float | None) -> None:
        nonlocal width
        line = f"{label}{left_text(left)}"
        with suppress(ValueError, OSError):  # stderr was closed
            sys.stderr.write("\r" + line.ljust(width))
            sys.stderr.flush()
            width = len(line)

    show = _bars[-1] if _bars else show_line

    def update() -> None:
        while not stop.wait(LIVE_SECONDS):
            label, done, total = describe()
            show(label, done, total, total - done)

    _running.append(stop)
    thread = threading.Thread(target=update, name="glbandits-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        _running.remove(stop)
        if width:
            with suppress(ValueError, OSError):
                sys.stderr.write("\r" + " " * width + "\r")
                sys.stderr.flush()


@contextmanager
def shown_progress(given: Callable[[int, int], None] | None, label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield the user's function of the work done and the total work. If it is None, yield one that prints lines."""
    if given is not None:
        yield given
        return
    share, left, time_left = 0.0, "", TimeLeft()

    def report(done: int, total: int) -> None:
        nonlocal share, left
        share = done / max(total, 1)
        left = left_text(time_left(share))

    with progress_lines(lambda: f"{label}: {share:.0%}{left}"):
        yield report
