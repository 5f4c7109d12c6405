"""Options that commands of different kinds share, and the command as the user typed it."""

import shlex
import sys
from typing import Annotated, TypeAlias

import typer

LevelOption: TypeAlias = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Seed of all random numbers.")]
JobsOption: TypeAlias = Annotated[int, typer.Option(help="Number of processes; -1 for one per core.")]
EngineOption: TypeAlias = Annotated[
    str, typer.Option(help="Where processes run: local, or ray (needs the extra 'ray').")
]
StoreOption: TypeAlias = Annotated[
    str,
    typer.Option(envvar="GLB_SERVE_STORE", help="The SQLite file or postgresql:// address of the service's store."),
]
LINK_NAMES = "identity, logistic, probit or log"


def command_line() -> str:
    """Return the command as the user typed it, for reports that say how to reproduce them."""
    return "glb " + shlex.join(sys.argv[1:])
