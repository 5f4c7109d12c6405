"""Lines of progress on stderr, for a person who waits at a terminal or in a notebook."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

FIRST_SECONDS, NEXT_SECONDS = 2.0, 20.0
"""Seconds until the first line, and from each line to the next."""

_running: list[threading.Event] = []
"""The blocks that run now. Only the last one, which is inside of the others, prints."""


def is_watched() -> bool:
    """Whether stderr is a terminal or the output of a notebook.

    Programs that read stderr from a pipe or a file, and other libraries, get no lines.
    """
    try:
        return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


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
def shown_progress(given: Callable[[int, int], None] | None, label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield the user's function of the work done and the total work. If it is None, yield one that prints lines."""
    if given is not None:
        yield given
        return
    share = 0.0

    def report(done: int, total: int) -> None:
        nonlocal share
        share = done / max(total, 1)

    with progress_lines(lambda: f"{label}: {share:.0%}"):
        yield report
