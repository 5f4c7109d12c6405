"""The table of commands. A command is imported when it is used, so that `glb serve` does not import plotting.

Help and completion list the commands without importing them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from glbandits.cli.option_names import option_namer
from glbandits.common.errors import GlbanditsError
from glbandits.common.extras import needed_for


class Entry(NamedTuple):
    """A command in the table."""

    function: str
    """Name of its function or typer application, in a module of `cli.commands`."""
    extra: str
    """The extra that installs what the command needs."""
    summary: str
    """One sentence for the list of commands."""
    module: str = ""
    """The module within `glbandits.cli`; by default `commands.NAME`."""
    needs: tuple[str, ...] = ()
    """Modules that the command imports only while it runs. It is not started without them."""


SERVER = ("httptools", "prometheus_client", "starlette", "uvicorn")
"""Modules that a server process imports."""

COMMANDS = {
    "backup": Entry("backup_command", "serve", "Copy the store of a service, and check the copy."),
    "compare": Entry("compare_command", "lab", "Compare policies on your own problem, from a TOML file."),
    "compile": Entry("compile_command", "serve", "Compile policies into the cache on disk."),
    "demo": Entry(
        "demo_command", "serve", "Run a server and a simulated shop, and show how it learns.", "demo.command", SERVER
    ),
    "diagnose": Entry("diagnose_command", "lab", "Check whether the theory of SGD-TS covers your problem."),
    "evaluate": Entry("evaluate_command", "lab", "Estimate the mean reward of policies from a log."),
    "export": Entry("export_command", "serve", "Write the log of a service to Parquet files."),
    "keys": Entry("keys_app", "serve", "Create, list and revoke the API keys of a service."),
    "models": Entry("models_app", "serve", "List, replace and relearn the models of a service."),
    "paper": Entry("paper_command", "lab", "Reproduce the figures, tables and claims of the SGD-TS paper."),
    "policies": Entry("policies_command", "lab", "List all policies with their settings and defaults."),
    "replay": Entry("replay_command", "serve", "Repeat every decision of a service's log, and compare."),
    "serve": Entry("serve_command", "serve", "Run the Rank/Reward service.", needs=SERVER),
    "simulate": Entry("simulate_command", "lab", "Play policies on a synthetic problem, and plot their regret."),
    "slates": Entry("slates_command", "lab", "Estimate the reward of slates under other policies, from a log."),
    "train": Entry("train_command", "lab", "Train a model on a log, and save it."),
    "tune": Entry("tune_command", "lab", "Choose the settings of a policy from a log."),
}


PACKAGES = {
    "lab": ("altair", "joblib", "polars", "sklearn", "vl_convert"),
    "serve": ("httptools", "msgspec", "starlette", "uvicorn"),
}
"""Packages that an extra installs."""


class _CommandTable(Mapping[str, Any]):
    """The commands by name. Access imports the command."""

    def __getitem__(self, name: str) -> Any:
        return _load(name, COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class LazyCommands(TyperGroup):
    """A group that imports a command when it is used. Errors of commands name their options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _CommandTable()
        self._is_listing = False

    # The parameters are of type Any, because the module of typer's context class differs between versions.
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return the command of this name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        return _listed(cmd_name, COMMANDS[cmd_name]) if self._is_listing else self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of `glb`."""
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands and options that begin with `incomplete`."""
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """Let `get_command` return commands that have a name and a summary only."""
        self._is_listing = True
        try:
            yield
        finally:
            self._is_listing = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An error that names parameters names the options of the command instead."""
        try:
            return super().invoke(ctx)
        except GlbanditsError as error:
            command = None if ctx.invoked_subcommand is None else self.get_command(ctx, ctx.invoked_subcommand)
            error.name_parameters(option_namer(command))
            raise


def _load(name: str, entry: Entry) -> Any:
    module = f"glbandits.cli.{entry.module or f'commands.{name}'}"
    try:
        for needed in entry.needs:
            if find_spec(needed) is None:
                raise ModuleNotFoundError(name=needed)
        loaded = getattr(import_module(module), entry.function)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("glbandits"):
            raise
        loaded = _placeholder(name, entry, str(error.name))
    if not isinstance(loaded, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(name)(loaded)
        loaded = application
    command = typer.main.get_command(loaded)
    command.name = name
    return command


def _listed(name: str, entry: Entry) -> Any:
    """Return a command with a name and a summary, which cannot run."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    summary = entry.summary if _is_installed(entry.extra) else f"Not installed: needs the extra {entry.extra}."

    @application.command(name, help=summary)
    def listed() -> None:
        raise NotImplementedError

    return typer.main.get_command(application)


def _is_installed(extra: str) -> bool:
    try:
        return all(map(find_spec, PACKAGES[extra]))
    except ModuleNotFoundError:
        return False


def _placeholder(name: str, entry: Entry, missing: str) -> typer.Typer:
    """Return a command that raises MissingExtra, for a command whose packages are not installed."""
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    application = typer.Typer(add_completion=False, rich_markup_mode=None)

    @application.command(name, context_settings=settings, add_help_option=False)
    def report_missing_module(_: typer.Context) -> None:
        with needed_for(f"glb {name}", entry.extra):
            raise ModuleNotFoundError(name=missing)

    return application
