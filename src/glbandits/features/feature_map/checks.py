"""What a user declares of a feature map, checked."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from glbandits.errors import InvalidInput, lookup
from glbandits.features.kinds.categorical import Category, Hashed, Text
from glbandits.features.kinds.column_kind import ColumnKind
from glbandits.features.kinds.numeric import Boolean, Date, Number

DECLARED: dict[str, ColumnKind] = {
    "number": Number(),
    "raw": Number(missing="impute"),
    "boolean": Boolean(),
    "hashed": Hashed(),
    "text": Text(),
    "date": Date(),
}
"""Kinds that need not be learned from data."""

ALIKE = 0.75
"""The similarity of two names from which one is taken for the other, misspelt."""
MOST_COMPARED = 100
"""Names that are compared with a missing one: a request may have thousands."""
Crosses: TypeAlias = Literal["all"] | Iterable[tuple[str, str]]
"""Which columns are multiplied: each one of the context with each one of the arm, or these pairs."""


def declared_kinds(name: str, columns: object) -> dict[str, ColumnKind]:
    """The kinds of the columns of an argument, whose values may be names of kinds."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise InvalidInput(
            f"{name} must tell the kind of each column, such as {{'age': 'number'}}; got {repr(columns)[:60]}. "
            "FeatureMap.learn(table, ...) learns the kinds from data"
        )
    kinds: dict[str, ColumnKind] = {}
    for column, kind in columns.items():
        if not isinstance(column, str) or not column:
            raise InvalidInput(f"names of columns must be text, got {column!r}")
        if kind == "category":
            raise InvalidInput(
                f"column {column!r} is a category, and its values must be given: Category(('a', 'b')). Or say 'hashed'"
            )
        kinds[column] = kind if isinstance(kind, ColumnKind) else lookup("kind of a column", kind, DECLARED)
    return kinds


def check_names(groups: Mapping[str, Mapping[str, ColumnKind]], per_arm_block: str | None) -> None:
    """Raise InvalidInput if a column is in two groups, or the block of each arm has no names of arms."""
    names = [name for group in groups.values() for name in group]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"column {twice[0]!r} must be of the arm, of the context or own, and is of two of them")
    if per_arm_block is not None:
        kind = groups["arm"].get(per_arm_block)
        if not isinstance(kind, Category) or kind.other:
            raise InvalidInput(
                f"per_arm_block must be a column of arm with the names of all arms, Category((...), other=False); got "
                f"{per_arm_block!r}"
            )


def checked_crosses(crosses: Any) -> Literal["all"] | tuple[tuple[str, str], ...]:
    """The pairs as tuples; "all" as it is."""
    if crosses == "all":
        return "all"
    pairs = () if isinstance(crosses, str) or not isinstance(crosses, Iterable) else tuple(map(tuple, crosses))
    fine = all(len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in pairs)
    if isinstance(crosses, str) or not isinstance(crosses, Iterable) or not fine:
        raise InvalidInput(
            f"crosses must be 'all', or pairs of columns such as [('country', 'topic')]; got {crosses!r}"
        )
    return pairs


def check_fields(absent: Iterable[str], found: Iterable[str], kinds: Mapping[str, ColumnKind], row: int | None) -> None:
    """Raise InvalidInput if a column is missing that must be there, or that seems to be misspelt.

    Args:
        absent: the columns that are missing.
        found: those that are there.
        kinds: of all columns that the map knows.
        row: the row that lacks them; None for all.
    """
    unknown = [str(name) for name in found if name not in kinds][:MOST_COMPARED]
    for name in absent:
        near = get_close_matches(name, unknown, n=1, cutoff=ALIKE)
        if near or not kinds[name].takes_missing:
            hint = f" (did you mean {near[0]!r} for it?)" if near else ""
            owner = "the rows have" if row is None else f"row {row} has"
            raise InvalidInput(f"{owner} no column {name!r}{hint}. Send it, with null if its value is not known")
