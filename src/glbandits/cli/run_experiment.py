"""What `glb paper` and `glb compare` share: run an experiment with a bar, and print its tables."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from glbandits.cli.progress import work_bar
from glbandits.errors import look_up
from glbandits.experiments.experiment import Experiment
from glbandits.experiments.protocols import PROTOCOLS, ExperimentRunner, ProtocolResult
from glbandits.experiments.results import ExperimentResult

BOTH = "both"


def protocol_names(asked: str) -> list[str]:
    """One of them, or both."""
    look_up("protocol", asked, {**PROTOCOLS, BOTH: None})
    return list(PROTOCOLS) if asked == BOTH else [asked]


def command_line() -> str:
    """What the user typed."""
    return "glb " + shlex.join(sys.argv[1:])


def run_experiment(
    experiment: Experiment, protocols: Sequence[str], quick: bool, runner: ExperimentRunner, console: Console
) -> ExperimentResult:
    """Run what is missing, and print what came of it."""
    with work_bar(console) as bar:
        here = replace(runner, progress=lambda what, done, all_: bar(f"{experiment.name}: {what}", done, all_))
        results = tuple(PROTOCOLS[name](experiment, here, quick=quick) for name in protocols)
    for result in results:
        console.print(_table(experiment, result))
    return ExperimentResult(experiment, results, quick)


def _table(experiment: Experiment, result: ProtocolResult) -> Table:
    table = Table(title=f"{escape(experiment.title)}: {result.protocol} protocol", title_justify="left")
    for column in ("policy", "settings", "regret at the end", "behind the best", "ms a run", "chosen"):
        table.add_column(column, justify="left" if column in ("policy", "chosen") else "right", overflow="fold")
    for outcome, (_, gap, width) in zip(result.outcomes, result.paired(), strict=True):
        table.add_row(
            outcome.label,
            str(outcome.tried),
            f"{outcome.mean[-1]:.1f} +- {outcome.half_width[-1]:.1f}",
            "-" if gap == 0.0 else f"{gap:.1f} +- {width:.1f}",
            f"{1e3 * outcome.seconds.mean():.2f}",
            escape(outcome.chosen),
        )
    return table
