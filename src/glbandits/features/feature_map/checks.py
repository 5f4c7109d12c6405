"""Checks of the arguments of a feature map, and of the columns of rows."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from glbandits.errors import InvalidInput, lookup, value_text
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

SIMILARITY = 0.75
"""The similarity of two names, from 0 to 1, from which on one is suspected to be a misspelling of the other."""
MAX_COMPARED = 100
"""The largest number of names that are compared with an absent one: a request may have thousands."""
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
        if kind == "category":
            raise InvalidInput(
                f"column {column!r} is a category without values. Use Category(('a', 'b')) with its values, or 'hashed'"
            )
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


def check_fields(
    absent: Iterable[str], present: Iterable[str], kinds: Mapping[str, ColumnKind], row: int | None
) -> None:
    """Raise InvalidInput if an absent column is required, or seems to be misspelt.

    Args:
        absent: columns of the map that the row lacks.
        present: the columns of the row.
        kinds: the kinds of all columns of the map.
        row: the number of the row; None if all rows lack the columns.
    """
    unknown = [str(name) for name in present if name not in kinds][:MAX_COMPARED]
    for name in absent:
        similar = get_close_matches(name, unknown, n=1, cutoff=SIMILARITY)
        if similar or not kinds[name].takes_missing:
            hint = f", but {similar[0]!r}, which may be a misspelling" if similar else ""
            owner = "the rows have" if row is None else f"row {row} has"
            raise InvalidInput(f"{owner} no column {name!r}{hint}. Send {name!r}, with null if its value is unknown")
