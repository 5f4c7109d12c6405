"""`glb paper`: every figure and table of the paper, by its protocol and on fresh seeds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from glbandits.cli.progress import work_bar
from glbandits.cli.run_experiment import BOTH, command_line, protocol_names, run_experiment
from glbandits.errors import InvalidInput, look_up
from glbandits.experiments.paper import EXPERIMENTS, NAMES, Sources, runtime
from glbandits.experiments.protocols import ExperimentRunner
from glbandits.experiments.report import write_report
from glbandits.experiments.result_store import ResultStore
from glbandits.experiments.results import RuntimeTable
from glbandits.policies import POLICIES


def paper_command(
    names: Annotated[list[str], typer.Argument(help=f"What to run: {', '.join(NAMES)}, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A thin grid: about two minutes for the simulation.")] = False,
    protocol: Annotated[str, typer.Option(help="paper, fresh or both.")] = BOTH,
    data: Annotated[Path | None, typer.Option(help="The whole UCI file of forest cover, covtype.data.")] = None,
    news: Annotated[list[Path], typer.Option(help="A file of Yahoo! R6A; may be given several times.")] = [],  # noqa: B006
    out: Annotated[Path, typer.Option(help="The folder for the report, the figures and the store.")] = Path(
        "out/paper"
    ),
    jobs: Annotated[int, typer.Option(help="Processes at once; -1 for one per core.")] = -1,
    engine: Annotated[str, typer.Option(help="local, or ray (with the extra [ray]).")] = "local",
) -> None:
    """Reproduce the paper, and show beside each figure what remains on fresh seeds.

    FinishedRun runs are kept in OUT/store and never computed twice: a command that was stopped goes on where it was.
    """
    chosen = list(NAMES) if names == ["all"] else names
    for name in chosen:
        look_up("experiment", name, dict.fromkeys((*NAMES, "all")))
    if "all" in chosen:
        raise InvalidInput(f"all stands for every experiment, so it is named alone; got {', '.join(names)}")
    protocols = protocol_names(protocol)
    console = Console()
    sources = Sources(forest=data, news=news, work=out)
    runner = ExperimentRunner(ResultStore(out / "store"), jobs, engine)
    results = []
    for name in chosen:
        if name in EXPERIMENTS:
            with console.status(f"{name}: reading data"):
                experiments = EXPERIMENTS[name](sources)
            results += [run_experiment(one, protocols, quick, runner, console) for one in experiments]
    table = _time_policies(console) if runtime.NAME in chosen else None
    page = write_report(results, table, out, command_line())
    console.print(f"Report: {page}", soft_wrap=True, markup=False)


def _time_policies(console: Console) -> RuntimeTable:
    done = 0
    with work_bar(console) as bar:

        def report(name: str) -> None:
            nonlocal done
            bar(f"timing {name}", done, len(POLICIES))
            done += 1

        return runtime.measure(progress=report)
