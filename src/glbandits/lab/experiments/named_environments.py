"""Environments by name: those of the package, and those of a user's module, such as `mine:Drift`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from glbandits.common.errors import GlbanditsError, InvalidInput, UnknownName, lookup
from glbandits.common.user_code import load_object
from glbandits.lab.environments import Environment, ForestCover, News, Prices, Synthetic
from glbandits.lab.environments.rounds import check_environment
from glbandits.maths.links import Link

ENVIRONMENTS: dict[str, type[Any]] = {
    "synthetic": Synthetic,
    "forest-cover": ForestCover,
    "news": News,
    "prices": Prices,
}
"""Environments of the package by `kind`."""


def make_environment(kind: object, settings: Mapping[str, Any], where: str = "the environment") -> Environment:
    """Return the environment of this kind with these settings.

    Args:
        kind: a name of `ENVIRONMENTS`, or `module:Name` for a class or function of a user, which is called with the
            settings and returns an environment.
        settings: keyword arguments.
        where: what messages call the settings.
    """
    if isinstance(kind, str) and ":" in kind:
        return _own_environment(kind, settings, where)
    known: Any = lookup("kind of environment", kind, ENVIRONMENTS)
    _check_names(where, settings, [field.name for field in fields(known)])
    for field in fields(known):
        if field.default is MISSING and field.default_factory is MISSING and field.name not in settings:
            raise InvalidInput(f"{where} needs {field.name}; got {', '.join(('kind', *settings))}")
    try:
        environment: Environment = known(**settings)
    except TypeError as error:
        raise InvalidInput(f"{where} has a value of the wrong type, {dict(settings)!r}: {error}") from None
    return environment


def _own_environment(kind: str, settings: Mapping[str, Any], where: str) -> Environment:
    make = load_object(kind)
    if not callable(make):
        raise UnknownName(
            f"{where} needs a class or a function that returns an environment; {kind.replace(':', '.')} is {make!r}."
        )
    _check_arguments(make, settings, where)
    try:
        environment: Environment = make(**settings)
        check_environment(environment)
    except GlbanditsError as error:
        raise InvalidInput(f"{where}, {described(kind, settings)}: {error}") from error
    except Exception as error:
        raise InvalidInput(
            f"{where} could not be created by {described(kind, settings)}: {type(error).__name__}: {error}"
        ) from error
    return environment


def _check_arguments(make: Callable[..., Any], settings: Mapping[str, Any], where: str) -> None:
    """Raise InvalidInput or UnknownName unless the callable takes these keyword arguments."""
    try:
        signature = inspect.signature(make)
    except ValueError:  # a class written in C
        return
    parameters = signature.parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        _check_names(where, settings, list(signature.parameters))
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and parameter.name not in settings
    ]
    if missing:
        raise InvalidInput(f"{where} needs {', '.join(missing)}; got {', '.join(('kind', *settings))}")


def _check_names(where: str, settings: Mapping[str, Any], known: list[str]) -> None:
    for name in settings:
        lookup(f"name in {where}", name, dict.fromkeys(known))


def described(kind: str, settings: Mapping[str, Any]) -> str:
    """Return an environment as text, for titles and messages.

    >>> described("mine:Drift", {"speed": 0.1})
    'mine:Drift(speed=0.1)'
    """
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def default_link(environment: Environment) -> str | Link:
    """Return the link that policies get if the user sets none: that of the problem, or else one for its rewards."""
    link: str | Link | None = getattr(environment, "link", None)
    if link is not None:
        return link
    noise = environment.noise
    if noise.lowest_reward < 0.0:
        return "identity"
    return "logistic" if noise.highest_reward <= 1.0 else "log"
