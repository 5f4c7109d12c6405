"""The commands of `glb` by name. Each is imported when it is used: `glb serve` needs no plotting."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from glbandits.errors import GlbanditsError


class Entry(NamedTuple):
    """Where a command is, and the extra with which its dependencies are installed."""

    module: str
    name: str
    extra: str


COMMANDS = {
    "backup": Entry("backup", "backup_command", "serve"),
    "compare": Entry("compare", "compare_command", "lab"),
    "compile": Entry("compile", "compile_command", "serve"),
    "demo": Entry("demo", "demo_command", "serve"),
    "diagnose": Entry("diagnose", "diagnose_command", "lab"),
    "evaluate": Entry("evaluate", "evaluate_command", "lab"),
    "export": Entry("export", "export_command", "serve"),
    "keys": Entry("keys", "keys_app", "serve"),
    "paper": Entry("paper", "paper_command", "lab"),
    "policies": Entry("policies", "policies", "lab"),
    "replay": Entry("replay", "replay_command", "serve"),
    "serve": Entry("serve", "serve_command", "serve"),
    "simulate": Entry("simulate", "simulate_command", "lab"),
    "slates": Entry("slates", "slates_command", "lab"),
    "train": Entry("train", "train_command", "lab"),
    "tune": Entry("tune", "tune_command", "lab"),
}


class MissingExtra(GlbanditsError):
    """A command needs what is not installed."""


class _Commands(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return _loaded(name, COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Commands(TyperGroup):
    """The commands, each imported when it is asked for. Their names are known without."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()

    # Of Any, because typer's own type for the context has moved from one of its versions to the next.
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Their names."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command of this name; None if there is none."""
        return self.commands[cmd_name] if cmd_name in COMMANDS else None


def _loaded(name: str, entry: Entry) -> Any:
    try:
        found = getattr(import_module(f"glbandits.cli.{entry.module}"), entry.name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("glbandits"):
            raise
        found = _absent(name, entry, str(missing.name))
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    return command


def _absent(name: str, entry: Entry, missing: str) -> typer.Typer:
    """Stands in the list of commands for one that cannot be used, and says why."""
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    stand_in = typer.Typer(add_completion=False)

    told = f"Not installed: it is in the extra {entry.extra}."

    @stand_in.command(name, help=told, context_settings=anything, add_help_option=False)
    def refuse(_: typer.Context) -> None:
        raise MissingExtra(
            f"{name} needs {missing}, which is in the extra [{entry.extra}]: pip install 'glbandits[{entry.extra}]'"
        )

    return stand_in
