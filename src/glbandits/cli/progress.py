"""Progress bars and warnings of long commands."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from glbandits.common.display.progress_lines import TimeLeft, drawn_by, left_text

LINE_SECONDS = 20.0
"""Seconds between two lines of progress, if the output is not a terminal."""


@contextmanager
def work_bar(console: Console, *, in_seconds: bool = False) -> Iterator[Callable[[str, float, float], None]]:
    """Show a progress bar. Yields a function of a label, the work done and the total work, which may be in seconds.

    If the output is not a terminal, a line is printed to stderr at the start of each step and every `LINE_SECONDS`
    instead, and at the end if all work is done. A step starts with a new label, and with no work done or as much as
    before.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task, time_left = bar.add_task("", total=None, left=""), TimeLeft()
        lines, printed, previous, unprinted = Console(stderr=True, emoji=False), -math.inf, ("", 0.0), ""
        show_line = partial(lines.print, soft_wrap=True, markup=False, highlight=False)

        def report(label: str, done: float, total: float, seconds_left: float | None = None) -> None:
            nonlocal printed, previous, unprinted
            share = done / max(total, 1e-9)
            estimate = time_left(share)
            if seconds_left is None:
                seconds_left = total - done if in_seconds else estimate
            left = left_text(seconds_left)
            bar.update(task, completed=done, total=max(total, 1e-9), description=label, left=left.removeprefix(", "))
            starts = label != previous[0] and done in (0.0, previous[1])
            previous = (label, done)
            unprinted = f"{label}: {share:.0%}{left}"
            if not console.is_terminal and (starts or time.monotonic() - printed >= LINE_SECONDS):
                show_line(unprinted)
                printed, unprinted = time.monotonic(), ""

        with drawn_by(report):
            yield report
        if not console.is_terminal and unprinted.endswith(": 100%"):
            show_line(unprinted)


@contextmanager
def warnings_printed(console: Console) -> Iterator[list[str]]:
    """Print each UserWarning as one line when it is issued. Yields the list of messages so far."""
    messages: list[str] = []

    def show(message: Warning | str, *_where: object, **_more: object) -> None:
        messages.append(str(message))
        console.print(f"Warning: {message}", soft_wrap=True, markup=False, highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield messages
