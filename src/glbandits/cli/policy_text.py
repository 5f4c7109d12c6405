"""Policies as they are written on the command line: `sgd-ts:step=0.5,draw=decision`."""

import ast
from dataclasses import fields
from typing import Any

from glbandits.errors import InvalidInput, unknown_name
from glbandits.policies import POLICIES, Policy


def parse_policy(text: str, **defaults: Any) -> Policy:
    """The policy that a text names. Of the defaults, those that the policy has and the text leaves out are used.

    >>> parse_policy("sgd-ts:step=0.5,draw=decision", horizon=1000).draw
    'decision'
    """
    name, _, listed = text.partition(":")
    if name not in POLICIES:
        raise unknown_name("policy", name, POLICIES)
    kind: Any = POLICIES[name]
    known = [field.name for field in fields(kind)]
    settings = {key: value for key, value in defaults.items() if key in known}
    for entry in filter(None, listed.split(",")):
        key, equals, value = entry.partition("=")
        if not equals:
            raise InvalidInput(f"a setting is written name=value, as in {name}:{known[0]}=...; got {entry!r}")
        if key not in known:
            raise unknown_name(f"setting of {name}", key, known)
        settings[key] = _value(value)
    policy: Policy = kind(**settings)
    return policy


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
