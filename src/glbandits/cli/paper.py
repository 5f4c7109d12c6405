"""`glb paper`: every figure, table and claim of the paper, by its protocol and on fresh seeds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.progress import time_bar
from glbandits.cli.run_experiment import BOTH, command_line, make_folder, print_conclusions, protocol_names, resumable
from glbandits.experiments.paper import Sources
from glbandits.experiments.paper.claims import check_claims
from glbandits.experiments.paper.data_files import find_data
from glbandits.experiments.paper.findings import findings
from glbandits.experiments.paper.paper_summary import summarise_paper, write_summary
from glbandits.experiments.paper.whole_paper import ALL, NAMES, paper_parts, run_paper
from glbandits.experiments.protocols import ExperimentRunner
from glbandits.experiments.result_store import ResultStore
from glbandits.parallel import check_engine
from glbandits.reports.experiment_report import write_experiment_report


def paper_command(
    names: Annotated[list[str], typer.Argument(help=f"What to run: {', '.join(NAMES)}, or {ALL}.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Thin grids and 20 fresh seeds: about three minutes for everything.")
    ] = False,
    protocol: Annotated[str, typer.Option(help="paper, fresh or both.")] = BOTH,
    data: Annotated[
        list[Path], typer.Option(help="covtype.data, a Yahoo! R6A file, or a folder of them; repeat for more.")
    ] = [],  # noqa: B006
    out: Annotated[Path, typer.Option(help="The folder for the report, the figures and the store.")] = Path(
        "out/paper"
    ),
    jobs: Annotated[int, typer.Option(help="Processes at once; -1 for one per core.")] = -1,
    engine: Annotated[str, typer.Option(help="local, or ray (with the extra [ray]).")] = "local",
) -> None:
    """Reproduce the paper, and show beside each figure what remains on fresh seeds.

    Finished runs are kept in OUT/store and never computed twice: a command that was stopped continues where it was.
    """
    parts, protocols = paper_parts(names), protocol_names(protocol)
    check_engine(engine, jobs)
    sources = Sources(find_data(data, parts), out, quick)
    make_folder(out)
    console, store = Console(), ResultStore(out / "store")
    with resumable(store, console):
        with time_bar(console) as bar:
            results = run_paper(parts, sources, ExperimentRunner(store, jobs, engine), protocols, bar)
        summary = summarise_paper(results, command_line(), quick=quick)
        with console.status("writing the report"):
            page = write_experiment_report(results.experiments, out, command_line(), paper=summary)
            write_summary(summary, out)
    print_conclusions(list(summary.experiments), console)
    for line in findings(summary, check_claims(summary)):
        console.print(f"- {line}", markup=False, highlight=False)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
