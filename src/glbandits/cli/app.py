"""The application `glb`: its commands, and the options that come before a command."""

from typing import Annotated

import typer

from glbandits.cli.lazy_commands import LazyCommands
from glbandits.common.version import __version__

app = typer.Typer(
    cls=LazyCommands,
    help="Generalized linear bandits: compare policies, evaluate them from logs, and serve decisions.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: readable in a pipe, and brackets are no markup
    pretty_exceptions_enable=False,
)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"glbandits {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before a command."""
