"""The names of parameters in errors: `arm_table` of Python is `--arm-table` on the command line."""

import shlex
from collections.abc import Callable, Iterator
from typing import Any

from glbandits.common.errors import Parameter

OPTIONS = {"kinds": "--kind", "hashing": "--hash-width"}
"""Options whose names differ from those of the parameters in more than dashes."""
WITHOUT = {"propensity": "--estimate-propensities", "probabilities": "--probabilities ''"}
"""How to write on the command line that a parameter is None."""


def option_namer(command: Any) -> Callable[[Parameter], str]:
    """Return a function that writes a parameter as an option of the command, or as in Python if it has no such option.

    Args:
        command: a command or a group of typer; None if no command ran.
    """
    options = set(_options(command))

    def name(parameter: Parameter) -> str:
        option = OPTIONS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
        if option not in options:
            return parameter.in_python()
        return option_text(option, parameter)

    return name


def option_text(option: str, parameter: Parameter) -> str:
    """Write an option, with its value if the parameter has one.

    >>> option_text("--missing", Parameter("missing", True, "impute"))
    '--missing impute'
    >>> option_text("--kind", Parameter("kinds", True, {"price": "number"}))
    '--kind price=number'
    >>> option_text("--propensity", Parameter("Columns.propensity", True, None))
    '--estimate-propensities'
    >>> option_text("--sparse", Parameter("sparse", True, False))
    '--no-sparse'
    """
    if not parameter.has_value:
        return option
    if parameter.value is False:
        return option.replace("--", "--no-", 1)
    if parameter.value is None:
        return WITHOUT[parameter.name]
    values = parameter.value if isinstance(parameter.value, dict) else {"": parameter.value}
    texts = [f"{key}={value}" if key else str(value) for key, value in values.items()]
    return " ".join(f"{option} {shlex.quote(text)}" for text in texts)


def _options(command: Any) -> Iterator[str]:
    """Yield all options of a command and its subcommands."""
    for parameter in getattr(command, "params", ()):
        yield from parameter.opts
    for subcommand in getattr(command, "commands", {}).values():
        yield from _options(subcommand)
