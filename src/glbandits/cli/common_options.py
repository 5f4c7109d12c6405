"""Options that commands of different kinds share, and the command as the user typed it."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from glbandits.common.parallel import check_engine

PolicyOption: TypeAlias = Annotated[
    str, typer.Option(metavar="POLICY", help="A policy, optionally with settings: sgd-ts:step=0.5.")
]
PoliciesOption: TypeAlias = Annotated[
    list[str],
    typer.Option(metavar="POLICY", help="A policy, optionally with settings: sgd-ts:step=0.5. Repeat for more."),
]
CandidatesOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        metavar="POLICY",
        help="A policy, optionally with settings: sgd-ts:step=0.5. Or uniform, or arm:NAME. Repeat for more.",
    ),
]
ModelsOption: TypeAlias = Annotated[
    list[Path], typer.Option(help="A file with a saved Bandit, which does not learn from the log. Repeat for more.")
]
LevelOption: TypeAlias = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Seed of all random numbers.")]
JobsOption: TypeAlias = Annotated[int, typer.Option(help="Number of processes; -1 for one per core.")]
EngineOption: TypeAlias = Annotated[
    str, typer.Option(help="Where processes run: local, or ray (needs the extra 'ray').")
]
LINK_NAMES = "identity, logistic, probit or log"


@dataclass(frozen=True)
class ParallelOptions:
    """In how many processes a command works, and where they run."""

    jobs: JobsOption = 1
    engine: EngineOption = "local"

    def check(self) -> None:
        """Raise if the engine is unknown or not installed, or if `jobs` is invalid."""
        check_engine(self.engine, self.jobs)


def command_line() -> str:
    """Return the command as the user typed it, for reports that say how to reproduce them."""
    return "glb " + shlex.join(sys.argv[1:])
