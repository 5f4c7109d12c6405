"""Policies as texts in requests: `optimist`, `optimist:floor=0.05`, `optimist:{"link": "logistic"}`."""

from dataclasses import fields
from typing import Any, cast

from glbandits.common.errors import InvalidInput, lookup
from glbandits.policies import POLICIES
from glbandits.policies.contract import rebuild, settings_of
from glbandits.policies.parsing import split_policy


def parse_arguments(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a policy of the package and all its settings, from a text as for `split_policy`.

    The link is the identity if the text gives none. User-defined policies are refused, because a client must not have
    the server import a module. Raises UnknownName or InvalidInput.

    >>> name, settings = parse_arguments("optimist:link=logistic,floor=0.1")
    >>> name, settings["link"], settings["floor"]
    ('optimist', 'logistic', 0.1)
    """
    name, settings = split_policy(text)
    kind = lookup("policy", name, POLICIES)
    if "link" in {field.name for field in fields(cast(Any, kind))}:
        settings = {"link": "identity"} | settings
    try:
        return name, settings_of(rebuild(kind, settings))
    except TypeError as error:
        raise InvalidInput(
            f"a policy must be like {name}, {name}:setting=value or {name}:{{JSON}}; got {text[:80]!r}: {error}"
        ) from None
