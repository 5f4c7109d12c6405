"""Groups of options that several commands share: dataclasses whose fields are options of typer."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: replace each parameter whose type is a dataclass by the fields of the dataclass.

    The fields become options of the command, in their order and with their defaults. The command receives an instance
    of the dataclass.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters, groups = list[inspect.Parameter](), dict[str, Any]()
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            groups[parameter.name] = hint
            parameters += _parameters(hint)
        else:
            parameters.append(parameter.replace(annotation=hint))

    @wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    # typer reads the signature and the annotations. Options may be in any order, so all are keyword-only.
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return call


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return the fields of a dataclass as parameters of a function."""
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for field in fields(group):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        parameters.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=hints[field.name],
            )
        )
    return parameters
