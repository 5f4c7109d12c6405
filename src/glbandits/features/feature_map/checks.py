"""Checks of the arguments of a feature map, and of the columns of rows."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from glbandits.common.errors import InvalidInput, lookup, value_text
from glbandits.features.kinds.categorical import Category
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.dates import Date
from glbandits.features.kinds.hashed_text import Hashed, Text
from glbandits.features.kinds.numeric import Boolean, Number

DECLARED: dict[str, ColumnKind] = {
    "number": Number(),
    "raw": Number(missing="impute"),
    "boolean": Boolean(),
    "hashed": Hashed(),
    "text": Text(),
    "date": Date(),
}
"""Kinds that can be declared by name, because they have defaults for all settings."""

WITH_SETTINGS = {
    "category": "Category(('a', 'b')) with its values, or 'hashed'",
    "list": "Tags(('a', 'b')) with its values",
    "vector": "Vector(16) with its size",
    "decimal_comma": "Number(mean=..., scale=..., from_text=True, decimal_comma=True)",
    "thousands_comma": "Number(mean=..., scale=..., from_text=True)",
}
"""How to declare kinds that need settings, which `FeatureMap.learn` learns from a table."""
SIMILARITY = 0.75
"""The similarity of two names, from 0 to 1, from which on one is suspected to be a misspelling of the other."""
MAX_COMPARED = 100
"""The largest number of names that are compared with an absent one: a request may have thousands."""
Kinds: TypeAlias = Mapping[str, ColumnKind]
Crosses: TypeAlias = Literal["all"] | Iterable[tuple[str, str]]
"""Products of columns: "all" for each context column times each arm column, or pairs of column names."""


def declared_kinds(name: str, columns: object) -> dict[str, ColumnKind]:
    """The kinds of columns in the argument `name`, given as kinds or names of kinds."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise InvalidInput(
            f"{name} must be a dict with the kind of each column, such as {{'age': 'number'}}; got "
            f"{value_text(columns)}. To learn the kinds from data, use FeatureMap.learn(table, ...)"
        )
    kinds: dict[str, ColumnKind] = {}
    for column, kind in columns.items():
        if not isinstance(column, str) or not column:
            raise InvalidInput(f"names of columns must be text; got {value_text(column)}")
        if isinstance(kind, str) and kind in WITH_SETTINGS:
            raise InvalidInput(f"column {column!r} is a {kind} without settings. Use {WITH_SETTINGS[kind]}")
        kinds[column] = kind if isinstance(kind, ColumnKind) else lookup("kind of a column", kind, DECLARED)
    return kinds


def check_names(groups: Mapping[str, Mapping[str, ColumnKind]], per_arm_block: str | None) -> None:
    """Raise InvalidInput if a column is in two groups, or `per_arm_block` is not valid.

    It must be a column with the names of all arms.
    """
    names = [name for group in groups.values() for name in group]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(f"column {repeated[0]!r} must be in only one of arm, context and own; it is in two of them")
    if per_arm_block is not None:
        kind = groups["arm"].get(per_arm_block)
        if not isinstance(kind, Category) or kind.other:
            raise InvalidInput(
                f"per_arm_block must be an arm column with the names of all arms, Category((...), other=False); got "
                f"{per_arm_block!r}"
            )


def checked_crosses(crosses: Any) -> Literal["all"] | tuple[tuple[str, str], ...]:
    """Check the argument `crosses`, and return pairs as tuples."""
    if crosses == "all":
        return "all"
    pairs = () if isinstance(crosses, str) or not isinstance(crosses, Iterable) else tuple(map(tuple, crosses))
    are_pairs = all(len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in pairs)
    if isinstance(crosses, str) or not isinstance(crosses, Iterable) or not are_pairs:
        raise InvalidInput(
            f"crosses must be 'all', or a list of pairs of columns such as [('country', 'topic')]; got {crosses!r}"
        )
    return pairs


def check_row(row: Mapping[str, Any], groups: Mapping[str, Collection[str]], kinds: Kinds, index: int) -> None:
    """Raise InvalidInput if a row lacks a required column or all columns of a group, or has a misspelt field.

    Args:
        row: the fields of the row.
        groups: the columns that the row should have, by the name of the group: context, arm or own.
        kinds: the kinds of all columns of the map.
        index: the number of the row.
    """
    for group, names in groups.items():
        absent = [name for name in names if not _has_field(row, name)]
        for name in absent:
            similar = similar_field(name, row, kinds)
            if similar is not None:
                raise InvalidInput(
                    f"row {index} has the unknown field {similar!r}; did you mean {name!r}? {send_null(name)}"
                )
            if not kinds[name].takes_missing:
                raise InvalidInput(f"row {index} has no column {name!r}. {send_null(name)}")
        has_objects = any(name.partition(".")[0] in row for name in names)
        if absent and len(absent) == len(names) and group != "own" and not has_objects:
            raise InvalidInput(
                f"row {index} has no field of the {group}. Send at least one of {', '.join(names)}, with null if its "
                "value is unknown"
            )


def send_null(name: str) -> str:
    """Advice on an absent column."""
    return f"Send {name!r}, with null if its value is unknown"


def _has_field(row: Any, name: str) -> bool:
    """Whether a row has a field. A name such as "user.age" may be the path of a field of a nested object."""
    if name in row:
        return True
    outer, _, inner = name.partition(".")
    return bool(inner) and isinstance(row.get(outer), Mapping) and _has_field(row[outer], inner)


def similar_field(name: str, fields: Iterable[str], kinds: Kinds) -> str | None:
    """The unknown field that is most similar to an absent column; None if no field is similar.

    Names that differ only in case are similar.
    """
    prefix = ""
    while isinstance(fields, Mapping) and isinstance(fields.get(outer := name.partition(".")[0]), Mapping):
        prefix, name, fields = f"{prefix}{outer}.", name.partition(".")[2], fields[outer]
    unknown: dict[str, str] = {}
    for field in map(str, fields):
        if f"{prefix}{field}" not in kinds:
            unknown.setdefault(field.casefold(), field)
    folded = name.casefold()
    near = [folded] if folded in unknown else get_close_matches(folded, list(unknown)[:MAX_COMPARED], 1, SIMILARITY)
    return f"{prefix}{unknown[near[0]]}" if near else None
