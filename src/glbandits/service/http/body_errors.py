"""Error messages for JSON bodies that do not have the form of their schema."""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from glbandits.common.errors import known_names

UNKNOWN_FIELD = "Object contains unknown field"
UNKNOWN_VALUE = "Invalid enum value"
"""How msgspec's messages of an unknown field and of an unknown value start."""
_PATH = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def body_error_text(error: msgspec.DecodeError, schema: Any) -> str:
    """Return msgspec's message. For an unknown field or value it also has the closest and all known ones.

    >>> from glbandits.service.http.v1.schemas import BatchRequest
    >>> try:
    ...     msgspec.json.decode(b'{"reward": [{"event": "a"}]}', type=BatchRequest)
    ... except msgspec.ValidationError as error:
    ...     body_error_text(error, BatchRequest)
    "Object contains unknown field `event` - at `$.reward[0]`; did you mean 'eventId'? Known: cascade, eventId, ..."
    """
    text = str(error)
    start = next((each for each in (UNKNOWN_FIELD, UNKNOWN_VALUE) if text.startswith(each)), None)
    if start is None:
        return text
    path = _PATH.search(text)
    known = _known(_schema_type(schema), _STEP.findall(path[1]) if path else [])
    name = text.removeprefix(start).removesuffix(path[0] if path else "").strip(" `'")
    return text + known_names(name, known) if known else text


@cache
def _schema_type(schema: Any) -> inspect.Type:
    return inspect.type_info(schema)


def _known(kind: inspect.Type, steps: list[str]) -> list[str]:
    """Return the sorted fields of the object, or the values of the enum, at a path; none if the path leads elsewhere.

    A step is the name of a field, or empty for an item of a list.
    """
    if isinstance(kind, inspect.Metadata):
        return _known(kind.type, steps)
    if isinstance(kind, inspect.UnionType):
        return next((names for part in kind.types if (names := _known(part, steps))), [])
    if isinstance(kind, inspect.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        if not steps:
            return sorted(fields)
        return _known(fields[steps[0]], steps[1:]) if steps[0] in fields else []
    if isinstance(kind, inspect.ListType | inspect.VarTupleType) and steps and not steps[0]:
        return _known(kind.item_type, steps[1:])
    if isinstance(kind, inspect.EnumType) and not steps:
        return sorted(str(member.value) for member in kind.cls)
    if isinstance(kind, inspect.LiteralType) and not steps:
        return sorted(map(str, kind.values))
    return []
