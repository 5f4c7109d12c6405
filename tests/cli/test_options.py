"""One name of an option has one meaning in all commands, and their number does not grow."""

import inspect
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args

import pytest
from typer.models import OptionInfo

from glbandits.cli.app import COMMANDS

MOST_OPTIONS, MOST_NAMES = 149, 67
"""Upper bounds of the options of all commands together, and of their names. Lower them when options go."""
OTHER_DEFAULTS = {
    "--arm": "the table of decide has a row for each arm only if it names their column",
    "--jobs": "simulations use all cores, evaluations of logs one",
    "--loop": "verify and list show all loops",
    "--model": "decide needs one model, evaluate compares any number",
    "--out": "the folder has the name of the command",
    "--policy": "each command has policies that suit it",
    "--port": "the demo takes any free port",
    "--reward": "evaluate takes several rewards",
    "--seeds": "tune plays many settings, simulate few",
    "--to": "train writes a model, decide prints, the demo keeps nothing",
}
"""Options whose default, or whose number of values, differs between commands, and why."""


class Option(NamedTuple):
    """An option of a command."""

    command: str
    meaning: str
    """The first sentence of its help. Further sentences say what is special in this command."""
    type: str
    default: object


def options_of(command: str) -> dict[str, Option]:
    """The options of a command by name."""
    function = getattr(
        import_module(f"glbandits.cli.commands.{COMMANDS[command].module}"), f"{command.rpartition(' ')[2]}_command"
    )
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        annotation, info = get_args(parameter.annotation) or (parameter.annotation, None)
        if isinstance(info, OptionInfo):
            default = info.show_default if isinstance(info.show_default, str) else str(parameter.default)
            option = (*(info.param_decls or ()), f"--{name.replace('_', '-')}")[0]
            found[option] = Option(command, str(info.help).split(". ")[0].rstrip("."), _type_name(annotation), default)
    return found


def _type_name(annotation: Any) -> str:
    """The type of one value: "str" for list[str], str | None and Path, because a path is written as text."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    return "str" if kinds[0] is Path else kinds[0].__name__


@pytest.fixture(scope="module")
def options() -> dict[str, list[Option]]:
    """The uses of each option."""
    uses = defaultdict[str, list[Option]](list)
    for command in COMMANDS:
        for name, option in options_of(command).items():
            uses[name].append(option)
    return uses


def test_number_of_options_does_not_grow(options: dict[str, list[Option]]) -> None:
    assert sum(map(len, options.values())) <= MOST_OPTIONS
    assert len(options) <= MOST_NAMES


def test_a_name_has_one_meaning_and_one_type(options: dict[str, list[Option]]) -> None:
    assert {name: uses for name, uses in options.items() if len({(use.meaning, use.type) for use in uses}) > 1} == {}


def test_a_name_has_one_default(options: dict[str, list[Option]]) -> None:
    several = {name: uses for name, uses in options.items() if len({use.default for use in uses}) > 1}
    assert several.keys() == OTHER_DEFAULTS.keys(), several


def test_out_is_a_folder_with_the_name_of_the_command(options: dict[str, list[Option]]) -> None:
    assert {use.default for use in options["--out"]} == {
        f"out/{use.command.rpartition(' ')[2]}" for use in options["--out"]
    }


def test_serve_has_at_most_eight_options() -> None:
    assert len(options_of("serve")) <= 8
