"""Conversion of policies to dicts of plain values and back, and grids of settings."""

from dataclasses import asdict, fields, is_dataclass
from itertools import product
from typing import Any, get_args, get_type_hints

from glbandits.common.errors import InvalidInput
from glbandits.maths.links import Link
from glbandits.policies.contract.base import Grid, Policy


def grid_points(name: str, grid: Grid) -> list[dict[str, Any]]:
    """Return every combination of the values of a grid. The last setting changes fastest.

    `name` is the policy's name, for the error message.
    """
    if any(not values for values in grid.values()):
        raise InvalidInput(f"the grid of {name} has a setting without values: {dict(grid)}")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def rebuild(kind: type[Policy], settings: dict[str, Any]) -> Policy:
    """Create the policy from the output of `settings_of`.

    Raises UnknownName for a user-defined link.
    """
    hints = get_type_hints(kind)
    rebuilt = dict(settings)
    for name, value in settings.items():
        records: list[Any] = [hint for hint in get_args(hints.get(name)) if is_dataclass(hint)]
        if isinstance(value, dict) and records:
            rebuilt[name] = records[0](**value)
    return kind(**rebuilt)


def settings_of(policy: Policy) -> dict[str, Any]:
    """Return the settings as plain values for files and tables. A link is given by its name."""
    values: dict[str, Any] = {}
    for field in fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        if isinstance(value, Link):
            value = value.name
        elif is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        values[field.name] = value
    return values
