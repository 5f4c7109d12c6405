"""Policies as texts: `optimist`, `optimist:floor=0.05`, `optimist:{"link": "logistic"}`."""

from dataclasses import fields
from typing import Any, cast

import msgspec

from glbandits.errors import InvalidInput, lookup
from glbandits.policies import POLICIES
from glbandits.policy import rebuild, settings_of


def parse_arguments(text: str, link: str = "identity") -> tuple[str, dict[str, Any]]:
    """Return a policy's name and all its settings from a text.

    The text is `name`, `name:setting=value,setting=value` or `name:{JSON}`. `link` is used if the text names no link.

    >>> name, settings = parse_arguments("optimist:link=logistic,floor=0.1")
    >>> name, settings["link"], settings["floor"]
    ('optimist', 'logistic', 0.1)
    """
    name, _, listed = text.strip().partition(":")
    kind = lookup("policy", name, POLICIES)
    try:
        settings = msgspec.json.decode(listed, type=dict[str, Any]) if listed.startswith("{") else _listed(listed)
        if "link" in {field.name for field in fields(cast(Any, kind))}:
            settings = {"link": link} | settings
        return name, settings_of(rebuild(kind, settings))
    except (msgspec.DecodeError, TypeError) as error:
        raise InvalidInput(
            f"a policy must be like {name}, {name}:setting=value or {name}:{{JSON}}; got {text[:80]!r}: {error}"
        ) from None


def _listed(text: str) -> dict[str, Any]:
    pairs = [part.partition("=") for part in text.split(",") if part]
    return {name.strip(): _value(value.strip()) for name, _, value in pairs}


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
