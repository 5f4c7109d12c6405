"""`glb paper`: reproduce the figures, tables and claims of the paper, by its protocol and on fresh seeds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.common_options import command_line
from glbandits.cli.experiment_options import (
    ExperimentOptions,
    make_folder,
    print_conclusions,
    resumable,
)
from glbandits.cli.option_groups import with_option_groups
from glbandits.cli.progress import time_bar
from glbandits.lab.experiments.protocols import ExperimentRunner
from glbandits.lab.experiments.result_store import ResultStore
from glbandits.lab.paper.claims import check_claims
from glbandits.lab.paper.data_files import find_data
from glbandits.lab.paper.experiments import Sources
from glbandits.lab.paper.findings import findings
from glbandits.lab.paper.paper_summary import summarise_paper, write_summary
from glbandits.lab.paper.whole_paper import ALL, NAMES, paper_parts, run_paper
from glbandits.lab.report import write_experiment_report


@with_option_groups
def paper_command(
    *,
    names: Annotated[list[str], typer.Argument(help=f"Parts of the paper: {', '.join(NAMES)}, or {ALL}.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Use small grids and 20 fresh seeds: about three minutes for all parts.")
    ] = False,
    data: Annotated[
        list[Path], typer.Option(help="covtype.data, a Yahoo! R6A file, or a folder of them. Repeat for more.")
    ] = [],  # noqa: B006
    options: ExperimentOptions,
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and the result store.")] = Path(
        "out/paper"
    ),
) -> None:
    """Reproduce the paper, and show each result beside that on fresh seeds.

    Finished runs are stored in OUT/store and never computed twice: after a stop the same command continues.
    """
    parts, protocols = paper_parts(names), options.protocol_names()
    sources = Sources(*find_data(data, parts), out, quick)
    make_folder(out)
    console, store = Console(), ResultStore(out / "store")
    with resumable(store, console):
        with time_bar(console) as bar:
            runner = ExperimentRunner(store, options.jobs, options.engine)
            results = run_paper(parts, sources, runner, protocols, bar)
        summary = summarise_paper(results, command_line(), quick=quick)
        with console.status("writing the report"):
            page = write_experiment_report(results.experiments, out, command_line(), paper=summary)
            write_summary(summary, out)
    print_conclusions(list(summary.experiments), console)
    for line in findings(summary, check_claims(summary)):
        console.print(f"- {line}", markup=False, highlight=False)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
