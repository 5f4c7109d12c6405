"""Settings as plain values, for files, tables and grids."""

from dataclasses import asdict, fields, is_dataclass
from itertools import product
from typing import Any, get_args, get_type_hints

from glbandits.errors import InvalidInput
from glbandits.maths.links import Link
from glbandits.policy.base import Grid, Policy


def grid_points(name: str, grid: Grid) -> list[dict[str, Any]]:
    """Every combination of the values in the grid of the policy of this name; the last setting changes fastest."""
    if any(not values for values in grid.values()):
        raise InvalidInput(f"the grid of {name} has a setting without values: {dict(grid)}")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def rebuild(kind: type[Policy], settings: dict[str, Any]) -> Policy:
    """The policy that `settings_of` described; only a link of the user's own cannot come back from its name."""
    hints = get_type_hints(kind)
    rebuilt = dict(settings)
    for name, value in settings.items():
        records: list[Any] = [hint for hint in get_args(hints.get(name)) if is_dataclass(hint)]
        if isinstance(value, dict) and records:
            rebuilt[name] = records[0](**value)
    return kind(**rebuilt)


def settings_of(policy: Policy) -> dict[str, Any]:
    """The settings as plain values, a link by its name: what files and tables show."""
    values: dict[str, Any] = {}
    for field in fields(policy):  # type: ignore[arg-type]
        value = getattr(policy, field.name)
        if isinstance(value, Link):
            value = value.name
        elif is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        values[field.name] = value
    return values
