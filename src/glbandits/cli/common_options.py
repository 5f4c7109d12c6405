"""Options that commands of different kinds share, and the command as the user typed it."""

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, TypeAlias

import typer

from glbandits.common.errors import InvalidInput

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
LoopOption: TypeAlias = Annotated[str, typer.Option(help="The loop, in the store of a service.")]
LoopsOption: TypeAlias = Annotated[
    list[str], typer.Option(help="The loop, in the store of a service. Repeat for more. Default: all loops.")
]
LINK_NAMES = "identity, logistic, probit or log"


def prepare_out_folder(folder: Path) -> None:
    """Create the folder of --out. Raises InvalidInput if it is not writable, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(f"--out needs a writable folder; got {folder}: {error.strerror}") from None


def prepare_out_file(file: Path) -> None:
    """Create the folder of a file that --out names. Raises InvalidInput if the file cannot be written."""
    if file.is_dir():
        raise InvalidInput(f"--out must be a file; {file} is a folder")
    prepare_out_folder(file.parent)


def command_line() -> str:
    """Return the command as the user typed it, for reports that say how to reproduce them."""
    return "glb " + shlex.join(sys.argv[1:])
