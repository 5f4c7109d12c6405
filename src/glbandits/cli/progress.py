"""The progress bar of long commands."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def work_bar(console: Console) -> Iterator[Callable[[str, float, float], None]]:
    """A bar; what it yields takes a label, how much is done and how much there is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None)

        def report(label: str, done: float, total: float) -> None:
            bar.update(task, completed=done, total=max(total, 1e-9), description=escape(label))

        yield report
