"""`glb store export`: write the log of a service to Parquet files, which `glb evaluate` reads."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from glbandits.cli.common_options import LoopOption, StoreOption
from glbandits.service.domain.events import Mode
from glbandits.service.export.loop_export import LEARNED, check_loop, export_loop
from glbandits.service.runtime.service import DEFAULT_LOOP
from glbandits.service.server_settings import DEFAULTS
from glbandits.service.storage.open_store import open_existing_store


def export_command(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    store: StoreOption = DEFAULTS["store"],
    loop: LoopOption = DEFAULT_LOOP,
    mode: Annotated[list[Mode], typer.Option(help="The mode of the decisions. Repeat for several modes.")] = [  # noqa: B006
        *LEARNED
    ],
    without_fields: Annotated[
        bool,
        typer.Option(
            "--without-fields",
            help="Leave out the fields of the requests, which may contain personal data. Their features stay.",
        ),
    ] = False,
) -> None:
    """Write settled decisions to Parquet files, with features, fields, probabilities and reward."""
    with closing(open_existing_store(store)) as opened:
        check_loop(opened, loop)
        manifest = export_loop(opened, loop, folder, modes=mode, with_fields=not without_fields)
    files = "1 file" if len(manifest.files) == 1 else f"{len(manifest.files)} files"
    rest = f"{manifest.left_out} left out, {manifest.open} still open"
    typer.echo(f"{folder}: {manifest.rows} decisions in {files}; {rest}")
    if manifest.open:
        typer.echo("Open decisions wait for their rewards. Export again when their reward windows have closed.")
    if manifest.rows:
        typer.echo(f"Evaluate the export with: glb evaluate {folder}")
