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
    module: str
    """The module in `cli.commands` with the function NAME_command, where NAME is the last word of the command."""


COMMANDS = {
    "compare": Entry("lab", "Compare policies on your own problems, from TOML files.", "experiments"),
    "compile": Entry("lab", "Compile policies into the cache on disk.", "compile"),
    "decide": Entry("lab", "Decide for the rows of a table by a saved model.", "decide"),
    "demo": Entry("serve", "Run a server and a simulated shop, and show how it learns.", "demo"),
    "describe": Entry("lab", "Show what a log contains, and whether it can be evaluated.", "describe"),
    "evaluate": Entry("lab", "Estimate the mean reward of policies from a log.", "evaluate"),
    "paper": Entry("lab", "Reproduce the figures, tables and claims of the SGD-TS paper.", "experiments"),
    "policies": Entry("lab", "List all policies with their settings and defaults.", "policies"),
    "power": Entry("lab", "Tell how many units a guardrail needs to find a change.", "power"),
    "serve": Entry("serve", "Run the Rank/Reward service.", "serve"),
    "simulate": Entry("lab", "Play policies on a simulated problem, and plot their regret.", "simulate"),
    "store backup": Entry("serve", "Copy the store, and check the copy.", "store.backup"),
    "store export": Entry("serve", "Write the log to Parquet files.", "store.export"),
    "store keys create": Entry("serve", "Create a key and print it.", "store.keys"),
    "store keys list": Entry("serve", "List the keys that are not revoked.", "store.keys"),
    "store keys revoke": Entry("serve", "Revoke a key.", "store.keys"),
    "store models list": Entry("serve", "List the saved models.", "store.models"),
    "store models use": Entry("serve", "Replace the model of a loop by an older one.", "store.models"),
    "store move": Entry("serve", "Move the store to another database.", "store.move"),
    "store relearn": Entry("serve", "Learn the log of a loop again, and replace its model.", "store.relearn"),
    "store verify": Entry("serve", "Repeat every decision of the log, and compare.", "store.verify"),
    "store version": Entry("serve", "Print the version of the tables.", "store.version"),
    "train": Entry("lab", "Train a model on a log, and save it.", "train"),
    "tune": Entry("lab", "Choose the settings of a policy from a log.", "tune"),
}
GROUPS = {
    "store": "Look after the store of a service: its log, keys and models.",
    "store keys": "Create, list and revoke the API keys of a service.",
    "store models": "List and replace the models of a service.",
}
"""Summaries of the groups of commands. A group comes before the groups in it."""
OPTIONS = {
    "cluster": ("--cluster", "--slate"),
    "costs": ("--payoffs",),
    "columns": ("--arm", "--reward", "--propensity", "--context"),
    "kinds": ("--kind",),
    "per_arm": ("--context",),
    "probabilities": ("--propensity",),
    "share": ("--train", "--share"),
    "values": ("--payoffs",),
}
"""Options for parameters of Python, if they differ in more than dashes."""


# The parameters are of type Any, because the module of typer's context class differs between versions.
class LazyCommands(TyperGroup):
    """A group whose commands have a name and a summary only, until one of them is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is used."""
        name, command, rest = super().resolve_command(ctx, args)
        _, *groups = ctx.command_path.split()  # without glb
        words = " ".join([*groups, str(name)])
        return name, load(words) if words in COMMANDS else command, rest


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


def load(words: str) -> Any:
    """Import a command of the table, and return it."""
    entry, name = COMMANDS[words], words.rpartition(" ")[2]
    with needed_for(f"glb {words}", entry.extra, outermost=True):
        function = getattr(import_module(f"glbandits.cli.commands.{entry.module}"), f"{name}_command")
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    application.command(name, cls=NamedOptions)(function)
    return typer.main.get_command(application)


def _group(summary: str, **settings: Any) -> typer.Typer:
    return typer.Typer(
        cls=LazyCommands,
        help=summary,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help: readable in a pipe, and brackets are no markup
        pretty_exceptions_enable=False,
        **settings,
    )


app = _group("Generalized linear bandits: compare policies, evaluate them from logs, and serve decisions.")
_groups = {"": app}
for _words, _summary in GROUPS.items():
    _parent, _, _name = _words.rpartition(" ")
    _groups[_words] = _group(_summary, add_completion=False)
    _groups[_parent].add_typer(_groups[_words], name=_name)
for _words, _entry in COMMANDS.items():
    _parent, _, _name = _words.rpartition(" ")
    _groups[_parent].command(_name, help=_entry.summary)(lambda: None)


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
