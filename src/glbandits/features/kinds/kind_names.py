"""Look up a kind of column by its name, with suggestions for names that other libraries use."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from glbandits.common.errors import UnknownName, value_text

Entry = TypeVar("Entry")

SYNONYMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("int", "integer", "float", "double", "decimal", "numeric"), ("number",)),
    **dict.fromkeys(("int32", "int64", "float32", "float64"), ("number",)),
    **dict.fromkeys(("str", "string", "object"), ("category", "text")),
    **dict.fromkeys(("categorical", "enum", "factor"), ("category", "hashed")),
    **dict.fromkeys(("hash", "id", "code"), ("hashed",)),
    **dict.fromkeys(("bool", "flag", "binary"), ("boolean",)),
    **dict.fromkeys(("datetime", "timestamp", "time"), ("date",)),
    **dict.fromkeys(("tags", "set"), ("list",)),
    **dict.fromkeys(("array", "embedding"), ("vector",)),
    **dict.fromkeys(("ignore", "drop", "none"), ("skip",)),
}
"""The kinds to suggest for common names of types."""


def lookup_kind(name: object, table: Mapping[str, Entry], *others: str) -> Entry:
    """Return the entry of a kind. Raises UnknownName with a suggestion and all known kinds.

    Args:
        name: the name of the kind.
        table: the entries by the name of the kind.
        others: kinds that are also valid, but not in the table.

    >>> lookup_kind("integer", {"number": 1}, "skip")
    Traceback (most recent call last):
    glbandits.common.errors.UnknownName: unknown kind of a column 'integer'; did you mean 'number'? Known: number, skip
    """
    if isinstance(name, str) and name in table:
        return table[name]
    known = sorted((*table, *others))
    text = (name.__name__ if isinstance(name, type) else str(name)).lower()
    nearest = [kind for kind in SYNONYMS.get(text, ()) if kind in known]
    nearest = nearest or get_close_matches(text, known, n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."
    raise UnknownName(f"unknown kind of a column {value_text(name, 200)}{hint} Known: {', '.join(known)}")
