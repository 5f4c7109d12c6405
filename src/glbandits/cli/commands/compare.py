"""`glb compare`: an experiment that a TOML file defines."""

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
from glbandits.lab.experiments.summary import summarise
from glbandits.lab.experiments.user_experiment import read_experiment
from glbandits.lab.report import write_experiment_report


@with_option_groups
def compare_command(
    *,
    file: Annotated[Path, typer.Argument(help="A TOML file with a problem, a horizon, policies and their grids.")],
    quick: Annotated[bool, typer.Option("--quick", help="Use small grids, and at most 20 fresh seeds.")] = False,
    options: ExperimentOptions,
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and the result store.")] = Path(
        "out/compare"
    ),
) -> None:
    """Compare policies on your own problem, by the same protocols as the figures of the paper."""
    protocols = options.protocol_names()
    experiment = read_experiment(file)
    make_folder(out)
    console, store = Console(), ResultStore(out / "store")
    with resumable(store, console):
        with time_bar(console) as bar:
            runner = ExperimentRunner(store, options.jobs, options.engine, bar)
            results = runner.run([experiment], protocols, quick=quick)
        page = write_experiment_report(results, out, command_line())
    print_conclusions(list(map(summarise, results)), console)
    console.print(f"Report: {page}", soft_wrap=True, markup=False)
