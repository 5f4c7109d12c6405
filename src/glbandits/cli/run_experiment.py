"""What `glb paper` and `glb compare` share: protocols by name, tables, and stopping with Ctrl-C."""

import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glbandits.errors import InvalidInput, lookup
from glbandits.experiments.protocols import PROTOCOLS
from glbandits.experiments.report.tables import EXTRA_NOTE, conclusion_table
from glbandits.experiments.result_store import ResultStore
from glbandits.experiments.summary import ExperimentSummary

BOTH = "both"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
CANCELLED = r"\d+ tasks (have been successfully executed|which were still being processed)"
"""How joblib's warning about the tasks that Ctrl-C cancels begins."""


def protocol_names(asked: str) -> list[str]:
    """One of them, or both."""
    lookup("protocol", asked, dict.fromkeys((*PROTOCOLS, BOTH)))
    return list(PROTOCOLS) if asked == BOTH else [asked]


def make_folder(out: Path) -> None:
    """Make the folder of the results, and refuse one that cannot be written, before anything is computed."""
    try:
        for folder in (out, out / "store"):
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise InvalidInput(f"--out must be a folder that can be written; got {out}: {error.strerror}") from None


def command_line() -> str:
    """What the user typed."""
    return "glb " + shlex.join(sys.argv[1:])


@contextmanager
def resumable(store: ResultStore, console: Console) -> Iterator[None]:
    """Say that the work can be stopped; on Ctrl-C say how to continue, and exit."""
    text = f"Finished runs are kept in {store.folder}. Stop with Ctrl-C at any time; the same command continues."
    console.print(text, soft_wrap=True, markup=False)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", CANCELLED)
            yield
    except (KeyboardInterrupt, SystemError) as error:
        if not _is_interrupt(error):
            raise
        kept = f"Stopped. {len(store):,} finished runs are kept in {store.folder}."
        console.print(f"{kept} To continue, run: {command_line()}", soft_wrap=True, markup=False)
        raise typer.Exit(INTERRUPTED) from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused the error. Compiled code turns a KeyboardInterrupt into a SystemError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def print_conclusions(summaries: list[ExperimentSummary], console: Console) -> None:
    """A table of final regrets for each experiment, the best policy first, at most 80 columns wide."""
    for summary in summaries:
        data = conclusion_table(summary)
        table = Table(title=escape(f"{summary.title}: final regret"), title_justify="left", min_width=40)
        for column in data.columns:
            table.add_column(column, justify="left" if column == "policy" else "right", no_wrap=True)
        for row in data.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    if any(policy.is_extra for summary in summaries if summary.fresh for policy in summary.fresh.policies):
        console.print(EXTRA_NOTE)
