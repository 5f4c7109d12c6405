"""The commands of `glb`."""

from typing import Annotated

import typer

from glbandits.cli.compare import compare_command
from glbandits.cli.diagnose import diagnose_command
from glbandits.cli.evaluate import evaluate_command
from glbandits.cli.paper import paper_command
from glbandits.cli.policies import policies
from glbandits.cli.replay import replay_command
from glbandits.cli.simulate import simulate_command
from glbandits.version import __version__

app = typer.Typer(
    help="Generalized linear bandits: compare policies, and reproduce what the papers claim.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("compare")(compare_command)
app.command("diagnose")(diagnose_command)
app.command("evaluate")(evaluate_command)
app.command("paper")(paper_command)
app.command("policies")(policies)
app.command("replay")(replay_command)
app.command("simulate")(simulate_command)


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
