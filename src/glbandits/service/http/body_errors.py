"""Error messages for JSON bodies that do not have the form of their schema."""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from glbandits.common.errors import known_names

UNKNOWN_FIELD = "Object contains unknown field"
"""How msgspec's message of an unknown field starts."""
_PATH = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def body_error_text(error: msgspec.DecodeError, schema: Any) -> str:
    """Return msgspec's message. For an unknown field it also has the closest and all known fields of that object.

    >>> from glbandits.service.http.v1.schemas import BatchRequest
    >>> try:
    ...     msgspec.json.decode(b'{"reward": [{"event": "a"}]}', type=BatchRequest)
    ... except msgspec.ValidationError as error:
    ...     body_error_text(error, BatchRequest)
    "Object contains unknown field `event` - at `$.reward[0]`; did you mean 'eventId'? Known: cascade, eventId, ..."
    """
    text = str(error)
    if not text.startswith(UNKNOWN_FIELD):
        return text
    path = _PATH.search(text)
    known = _field_names(_schema_type(schema), _STEP.findall(path[1]) if path else [])
    name = text.removeprefix(UNKNOWN_FIELD).strip(" `").partition("`")[0]
    return text + known_names(name, known) if known else text


@cache
def _schema_type(schema: Any) -> inspect.Type:
    return inspect.type_info(schema)


def _field_names(kind: inspect.Type, steps: list[str]) -> list[str]:
    """Return the sorted fields of the object at a path; none if the path leads elsewhere.

    A step is the name of a field, or empty for an item of a list.
    """
    if isinstance(kind, inspect.Metadata):
        return _field_names(kind.type, steps)
    if isinstance(kind, inspect.UnionType):
        return next((names for part in kind.types if (names := _field_names(part, steps))), [])
    if isinstance(kind, inspect.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        if not steps:
            return sorted(fields)
        return _field_names(fields[steps[0]], steps[1:]) if steps[0] in fields else []
    if isinstance(kind, inspect.ListType | inspect.VarTupleType) and steps and not steps[0]:
        return _field_names(kind.item_type, steps[1:])
    return []
