"""`glb`: its commands, and the options that come before them."""

from typing import Annotated

import typer

from glbandits.cli.commands import Commands
from glbandits.version import __version__

app = typer.Typer(
    cls=Commands,
    help="Generalized linear bandits: compare policies, evaluate them from logs, and serve decisions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glbandits {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before the command."""
