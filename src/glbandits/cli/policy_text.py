"""Policies as they are written on the command line: `sgd-ts:step=0.5,draw=decision`, `module:Class:step=0.5`."""

import ast
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from glbandits.errors import InvalidInput, lookup
from glbandits.policies import POLICIES
from glbandits.policy import Policy, rebuild
from glbandits.policy_names import find_policy


def parse_policy(text: str, **defaults: Any) -> Policy:
    """The policy that a text names. Of the defaults, those that the policy has and the text leaves out are used.

    >>> parse_policy("sgd-ts:step=0.5,draw=decision", horizon=1000).draw
    'decision'
    """
    name, listed = _split(text)
    kind: Any = find_policy(name)
    known = {field.name: field for field in fields(kind)}
    settings = _settings(name, listed)
    for key in settings:
        lookup(f"setting of {name}", key, known)
    if "theory" not in settings:  # which brings a horizon of its own
        settings = {key: value for key, value in defaults.items() if key in known} | settings
    return rebuild(kind, settings)


def parse_grid(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The values to try for each setting.

    >>> parse_grid(["floor=0.01,0.05", "half_life=None,auto"])
    {'floor': (0.01, 0.05), 'half_life': (None, 'auto')}
    """
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        try:
            call = ast.parse(f"f({listed})", mode="eval").body
            if not isinstance(call, ast.Call) or call.keywords or not call.args or not name or name in grid:
                raise SyntaxError
            grid[name] = tuple(map(_value, call.args))
        except (SyntaxError, ValueError):
            raise InvalidInput(f"--grid is written setting=value,value, once for each setting; got {text!r}") from None
    return grid


def _split(text: str) -> tuple[str, str]:
    """The name of a policy, which is `module:Class` for a user's own, and its settings."""
    name, _, listed = text.partition(":")
    class_name, _, rest = listed.partition(":")
    return (f"{name}:{class_name}", rest) if name not in POLICIES and class_name.isidentifier() else (name, listed)


def _settings(name: str, listed: str) -> dict[str, Any]:
    """The text between the brackets of a call, with words as they are: step=0.5,draw=decision."""
    try:
        call = ast.parse(f"f({listed})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise SyntaxError
        return {str(word.arg): _value(word.value) for word in call.keywords}
    except (SyntaxError, ValueError):
        raise InvalidInput(f"settings are written {name}:name=value,name=value; got {listed!r}") from None


def _value(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
