"""`glb export`: the log of a server as Parquet files, which `glb evaluate` reads."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from glbandits.errors import InvalidInput
from glbandits.service_logs.catalogue_export import export_catalogue
from glbandits.service_logs.loop_export import LEARNED, export_loop
from glbandits.serving.domain.events import Mode
from glbandits.serving.runtime.service import DEFAULT_LOOP
from glbandits.serving.server_settings import DEFAULTS
from glbandits.serving.storage.event_store import EventStore
from glbandits.serving.storage.open_store import is_postgres, open_store


def export_command(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    store: Annotated[str, typer.Option(help="The file or postgresql:// address of the service's store.")] = DEFAULTS[
        "store"
    ],
    loop: Annotated[str, typer.Option(help="A loop of it.")] = DEFAULT_LOOP,
    mode: Annotated[list[Mode], typer.Option(help="Decisions of this mode, and of others if it is there again.")] = [  # noqa: B006
        *LEARNED
    ],
    catalogue: Annotated[
        bool, typer.Option(help="Decisions from the loop's catalogue, in place of all others.")
    ] = False,
) -> None:
    """Write settled decisions to Parquet files, with features, probabilities and reward."""
    with closing(opened_store(store)) as kept:
        export = export_catalogue if catalogue else export_loop
        written = export(kept, loop, folder, modes=mode)
    typer.echo(f"{folder}: {written.rows} decisions in {len(written.files)} files; {written.left_out} left out")
    columns = "" if catalogue or written.sparse_width is not None else " --features features"
    typer.echo(f"Evaluate it with: glb evaluate {folder}{columns}")


def opened_store(address: str) -> EventStore:
    """Open the store of a service. A file must exist."""
    if not is_postgres(address) and not Path(address).is_file():
        raise InvalidInput(f"there is no store {address}; name the file that `glb serve --store` uses")
    return open_store(address, durability="power")
