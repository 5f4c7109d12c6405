"""`glb compare`: a comparison of the user's own, from a small file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.progress import time_bar
from glbandits.cli.run_experiment import BOTH, command_line, make_folder, print_conclusions, protocol_names, resumable
from glbandits.experiments.protocols import ExperimentRunner
from glbandits.experiments.result_store import ResultStore
from glbandits.experiments.summary import summarise
from glbandits.experiments.user_experiment import read_experiment
from glbandits.parallel import check_engine
from glbandits.reports.experiment_report import write_experiment_report


def compare_command(
    file: Annotated[Path, typer.Argument(help="A TOML file: a problem, a horizon, policies and their grids.")],
    quick: Annotated[bool, typer.Option("--quick", help="A thin grid, and at most 20 fresh seeds.")] = False,
    protocol: Annotated[str, typer.Option(help="paper, fresh or both.")] = BOTH,
    out: Annotated[Path, typer.Option(help="The folder for the report, the figures and the store.")] = Path(
        "out/compare"
    ),
    jobs: Annotated[int, typer.Option(help="Processes at once; -1 for one per core.")] = -1,
    engine: Annotated[str, typer.Option(help="local, or ray (with the extra [ray]).")] = "local",
) -> None:
    """Compare policies on a problem of your own, by the same protocols as the paper's figures."""
    protocols = protocol_names(protocol)
    check_engine(engine, jobs)
    experiment = read_experiment(file)
    make_folder(out)
    console, store = Console(), ResultStore(out / "store")
    with resumable(store, console):
        with time_bar(console) as bar:
            results = ExperimentRunner(store, jobs, engine, bar).run([experiment], protocols, quick=quick)
        page = write_experiment_report(results, out, command_line())
    print_conclusions(list(map(summarise, results)), console)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
