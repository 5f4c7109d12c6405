"""Options and output that `glb paper` and `glb compare` share, and stopping them with Ctrl-C."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import EngineOption, JobsOption, command_line
from glbandits.cli.printed_table import print_table
from glbandits.common.errors import InvalidInput, lookup
from glbandits.common.parallel import check_engine
from glbandits.lab.experiments.protocols import PROTOCOLS
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.summary import ExperimentSummary
from glbandits.lab.report.tables import EXTRA_NOTE, conclusion_table

BOTH = "both"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells define it."""
CANCELLED = r"\d+ tasks (have been successfully executed|which were still being processed)"
"""The beginning of joblib's warning about the tasks that Ctrl-C cancels."""


@dataclass(frozen=True)
class ExperimentOptions:
    """How an experiment runs."""

    protocol: Annotated[str, typer.Option(help="paper, fresh or both.")] = BOTH
    jobs: JobsOption = -1
    engine: EngineOption = "local"

    def protocol_names(self) -> list[str]:
        """Check all options, and return the names of the protocols."""
        lookup("protocol", self.protocol, dict.fromkeys((*PROTOCOLS, BOTH)))
        check_engine(self.engine, self.jobs)
        return list(PROTOCOLS) if self.protocol == BOTH else [self.protocol]


def make_folder(out: Path) -> None:
    """Create the folder of the results. Raises InvalidInput if it is not writable, before anything is computed."""
    try:
        for folder in (out, out / "store"):
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise InvalidInput(f"--out must be a writable folder; got {out}: {error.strerror}") from None


@contextmanager
def resumable(store: ResultStore, console: Console) -> Iterator[None]:
    """Print that the command can be stopped. On Ctrl-C print how to continue, and exit."""
    text = f"Finished runs are stored in {store.folder}. Stop with Ctrl-C at any time; the same command continues."
    console.print(text, soft_wrap=True, markup=False)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", CANCELLED)
            yield
    except (KeyboardInterrupt, SystemError) as error:
        if not _is_interrupt(error):
            raise
        stopped = f"Stopped. {len(store):,} finished runs are stored in {store.folder}."
        console.print(f"{stopped} To continue, run: {command_line()}", soft_wrap=True, markup=False)
        raise typer.Exit(INTERRUPTED) from None


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused the error. Compiled code turns a KeyboardInterrupt into a SystemError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def print_conclusions(summaries: list[ExperimentSummary], console: Console) -> None:
    """Print a table of final regrets for each experiment, the best policy first, at most 80 columns wide."""
    for summary in summaries:
        print_table(console, replace(conclusion_table(summary), title=f"{summary.title}: final regret"))
    if any(policy.is_extra for summary in summaries if summary.fresh for policy in summary.fresh.policies):
        console.print(EXTRA_NOTE)
