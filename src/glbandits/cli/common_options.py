"""Options that several commands share. One name has one meaning, one type and one default in all commands."""

import re
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, NamedTuple, TypeAlias

import typer

from glbandits.common.errors import InvalidInput

LINK_NAMES = "identity, logistic, probit or log"
RAY = "ray"

LevelOption: TypeAlias = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
ExploreOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--explore/--no-explore",
        help="Try uncertain arms, as the policy does while it learns, or decide by the expected reward alone. Default: "
        "explore, but decide does not with --payoffs or --top.",
    ),
]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Seed of all random numbers.")]
JobsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="N",
        help="Number of processes; -1 for one per core; ray for a Ray cluster (needs the extra 'ray').",
    ),
]
ReferenceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="The policy or model that all others are compared with, as named above."),
]
OutOption: TypeAlias = Annotated[Path, typer.Option(help="Folder for the results.")]
ToOption: TypeAlias = Annotated[Path, typer.Option(help="The file to write.")]
StoreOption: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="GLB_SERVE_STORE",
        help="The SQLite file, or the postgresql:// address, of the log, models and keys.",
    ),
]
LoopOption: TypeAlias = Annotated[str, typer.Option(help="The loop, in the store of a service.")]
LoopsOption: TypeAlias = Annotated[
    list[str], typer.Option(help="The loop, in the store of a service. Repeat for more. Default: all loops.")
]


class Parallelism(NamedTuple):
    """The number of processes, and where they run."""

    jobs: int
    engine: str


def parse_jobs(text: str) -> Parallelism:
    """Return what --jobs says. Raises InvalidInput for another text, MissingExtra for ray without its extra."""
    from glbandits.common.parallel import check_engine  # the commands of a store do not need its extra

    if re.fullmatch(r"[+-]?\d+", text) is None and text != RAY:
        raise InvalidInput(
            f"--jobs must be a number of processes, -1 for one per core, or {RAY}; got {text!r}", field="jobs"
        )
    workers = Parallelism(-1, RAY) if text == RAY else Parallelism(int(text), "local")
    check_engine(workers.engine, workers.jobs)
    return workers


def prepare_out_folder(folder: Path) -> None:
    """Create the folder of --out. Raises InvalidInput if it is not writable, before anything is computed."""
    _prepare_folder(folder, f"--out needs a writable folder; got {folder}")


def prepare_file(file: Path) -> None:
    """Create the folder of the file that --to names. Raises InvalidInput if the file cannot be written."""
    if file.is_dir():
        raise InvalidInput(f"--to must be a file; {file} is a folder")
    _prepare_folder(file.parent, f"--to needs a file in a writable folder; got {file}")


def _prepare_folder(folder: Path, message: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(f"{message}: {error.strerror}") from None


def command_line() -> str:
    """Return the command as the user typed it, for reports that say how to reproduce them."""
    return "glb " + shlex.join(sys.argv[1:])
