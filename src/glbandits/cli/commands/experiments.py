"""`glb compare` and `glb paper`: experiments of a TOML file on fresh seeds, and of the paper also by its protocol."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from glbandits.cli.common_options import JobsOption, OutOption, command_line, parse_jobs, prepare_out_folder
from glbandits.cli.printed_table import print_table
from glbandits.cli.progress import work_bar
from glbandits.common.errors import lookup
from glbandits.common.version import __version__
from glbandits.lab.experiments.protocols import PROTOCOLS, ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.experiments.summary import ComparisonSummary, ExperimentSummary, summarise, write_summary
from glbandits.lab.experiments.user_experiment import read_experiments
from glbandits.lab.paper.claims import check_claims
from glbandits.lab.paper.data_files import find_data
from glbandits.lab.paper.experiments import Sources
from glbandits.lab.paper.findings import findings
from glbandits.lab.paper.paper_summary import summarise_paper
from glbandits.lab.paper.whole_paper import ALL, NAMES, paper_parts, run_paper
from glbandits.lab.report import write_experiment_report
from glbandits.lab.report.page import check_names
from glbandits.lab.report.tables import EXTRA_NOTE, conclusion_table, problems_table

BOTH = "both"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells define it."""
CANCELLED = r"\d+ tasks (have been successfully executed|which were still being processed)"
"""The beginning of joblib's warning about the tasks that Ctrl-C cancels."""

QuickOption: TypeAlias = Annotated[
    bool, typer.Option("--quick", help="Use small grids and few seeds, for a first look in minutes.")
]


def compare_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="A TOML file with problems, a horizon, policies and their grids. Name more for more."
        ),
    ],
    quick: QuickOption = False,
    jobs: JobsOption = "-1",
    out: OutOption = Path("out/compare"),
) -> None:
    """Compare policies on your own problems. Each has one setting, chosen on other seeds than those of the report.

    One report has a section for each problem, and a table of all of them.
    """
    workers = parse_jobs(jobs)
    experiments = read_experiments(files)
    check_names(experiments)
    console, store = Console(), _open_store(out)
    with _resumable(store, console):
        with work_bar(console, in_seconds=True) as bar:
            runner = ExperimentRunner(store, *workers, bar)
            results = runner.run(experiments, quick=quick)
        page = write_experiment_report(results, out, command_line(), jobs=workers.jobs)
        summaries = list(map(summarise, results))
        path = write_summary(ComparisonSummary(__version__, command_line(), quick, tuple(summaries)), out)
    _print_conclusions(summaries, console)
    if len(summaries) > 1:
        print_table(console, problems_table(summaries))
    console.print(f"Report: {page}\nNumbers: {path}", soft_wrap=True, markup=False)


def paper_command(
    names: Annotated[list[str], typer.Argument(help=f"Parts of the paper: {', '.join(NAMES)}, or {ALL}.")],
    quick: QuickOption = False,
    data: Annotated[
        list[Path], typer.Option(help="covtype.data, a Yahoo! R6A file, or a folder of them. Repeat for more.")
    ] = [],  # noqa: B006
    protocol: Annotated[str, typer.Option(help="paper, fresh or both.")] = BOTH,
    jobs: JobsOption = "-1",
    out: OutOption = Path("out/paper"),
) -> None:
    """Reproduce the paper, and show each result beside that on fresh seeds.

    Finished runs are stored in OUT/store and never computed twice: after a stop the same command continues.
    """
    parts, protocols = paper_parts(names), _protocols(protocol)
    workers = parse_jobs(jobs)
    sources = Sources(*find_data(data, parts), out, quick)
    console, store = Console(), _open_store(out)
    page = None
    with _resumable(store, console), work_bar(console, in_seconds=True) as bar:
        for results in run_paper(parts, sources, ExperimentRunner(store, *workers), protocols, bar):
            summary = summarise_paper(results, command_line(), quick=quick)
            missing = results.missing
            is_first = page is None
            page = write_experiment_report(
                results.experiments, out, command_line(), paper=summary, missing=missing, jobs=workers.jobs
            )
            if is_first and missing:
                console.print(f"Open {page} in a browser: it grows with each part.", soft_wrap=True, markup=False)
        write_summary(summary, out)
    _print_conclusions(list(summary.experiments), console)
    for line in findings(summary, check_claims(summary)):
        console.print(f"- {line}", markup=False, highlight=False)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)


def _protocols(name: str) -> list[str]:
    lookup("protocol", name, dict.fromkeys((*PROTOCOLS, BOTH)))
    return list(PROTOCOLS) if name == BOTH else [name]


def _open_store(out: Path) -> ResultStore:
    """Create the folder of the results. Raises InvalidInput if it is not writable, before anything is computed."""
    for folder in (out, out / "store"):
        prepare_out_folder(folder)
    return ResultStore(out / "store")


@contextmanager
def _resumable(store: ResultStore, console: Console) -> Iterator[None]:
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


def _print_conclusions(summaries: list[ExperimentSummary], console: Console) -> None:
    """Print a table of final regrets for each experiment, the best policy first, at most 80 columns wide."""
    for summary in summaries:
        print_table(console, replace(conclusion_table(summary), title=f"{summary.title}: final regret"))
    if any(policy.is_extra for summary in summaries if summary.fresh for policy in summary.fresh.policies):
        console.print(EXTRA_NOTE)
