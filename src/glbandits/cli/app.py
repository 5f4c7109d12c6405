"""The application `glb`: the table of its commands, and the options that come before a command.

A command is imported when it runs, so that help and completion are fast, and `glb serve` does not import plotting.
"""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from glbandits.common.errors import GlbanditsError
from glbandits.common.extras import needed_for
from glbandits.common.version import __version__


class Entry(NamedTuple):
    """A command in the table."""

    extra: str
    """The extra that installs what the command needs."""
    summary: str
    """One sentence for the list of commands."""
    module: str = ""
    """The module in `cli.commands` with the function or application NAME_command; by default NAME."""


COMMANDS = {
    "backup": Entry("serve", "Copy the store of a service, and check the copy."),
    "compare": Entry("lab", "Compare policies on your own problems, from TOML files.", "experiments"),
    "compile": Entry("lab", "Compile policies into the cache on disk."),
    "decide": Entry("lab", "Decide for the rows of a table by a saved model."),
    "demo": Entry("serve", "Run a server and a simulated shop, and show how it learns."),
    "describe": Entry("lab", "Show what a log contains, and whether it can be evaluated."),
    "evaluate": Entry("lab", "Estimate the mean reward of policies from a log."),
    "export": Entry("serve", "Write the log of a service to Parquet files."),
    "keys": Entry("serve", "Create, list and revoke the API keys of a service."),
    "models": Entry("serve", "List and replace the models of a service."),
    "move": Entry("serve", "Move the store of a service to another database."),
    "paper": Entry("lab", "Reproduce the figures, tables and claims of the SGD-TS paper.", "experiments"),
    "policies": Entry("lab", "List all policies with their settings and defaults."),
    "power": Entry("lab", "Tell how many units a guardrail needs to find a change."),
    "relearn": Entry("serve", "Learn the log of a loop again, and replace its model."),
    "replay": Entry("serve", "Repeat every decision of a service's log, and compare."),
    "route": Entry("lab", "Audit the log of a router for language models."),
    "serve": Entry("serve", "Run the Rank/Reward service."),
    "simulate": Entry("lab", "Play policies on a simulated problem, and plot their regret."),
    "slates": Entry("lab", "Estimate the reward of slates under other policies, from a log."),
    "train": Entry("lab", "Train a model on a log, and save it."),
    "tune": Entry("lab", "Choose the settings of a policy from a log."),
}
OPTIONS = {
    "costs": ("--payoffs",),
    "columns": ("--arm", "--reward", "--propensity", "--context", "--estimate-propensities"),
    "hashing": ("--hash-width",),
    "kinds": ("--kind",),
    "propensity": ("--propensity", "--estimate-propensities"),
    "values": ("--payoffs",),
    "width": ("--hash-width",),
}
"""Options for parameters of Python, if they differ in more than dashes."""


# The parameters are of type Any, because the module of typer's context class differs between versions.
class LazyCommands(TyperGroup):
    """A group whose commands have a name and a summary only, until one of them is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is used."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, _load(str(name)), rest


class NamedOptions(TyperCommand):
    """A command that adds the option of the field to an error, as a note."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GlbanditsError as error:
            name = (error.field or "").rpartition(".")[2]
            known = {option: each.metavar or "" for each in self.params for option in each.opts}
            options = OPTIONS.get(name, (f"--{name.replace('_', '-')}",))
            found = [f"{option} {known[option]}".strip() for option in options if option in known]
            if found:
                error.add_note(f"Option: {', '.join(found)}")
            raise


app = typer.Typer(
    cls=LazyCommands,
    help="Generalized linear bandits: compare policies, evaluate them from logs, and serve decisions.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: readable in a pipe, and brackets are no markup
    pretty_exceptions_enable=False,
)
for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.summary)(lambda: None)


def _load(name: str) -> Any:
    entry = COMMANDS[name]
    with needed_for(f"glb {name}", entry.extra, outermost=True):
        loaded = getattr(import_module(f"glbandits.cli.commands.{entry.module or name}"), f"{name}_command")
    if not isinstance(loaded, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name, cls=NamedOptions)(loaded)
        loaded = application
    command = typer.main.get_command(loaded)
    command.name = name
    return command


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
