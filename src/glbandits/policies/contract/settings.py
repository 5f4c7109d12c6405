"""Settings of a policy.

A setting is a dataclass field whose type annotation contains its bounds. This module reads the annotations. From them
it validates values, packs settings into the array that compiled code receives, and lists the names under which compiled
code reads them.
"""

import math
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np

from glbandits.common.arrays import Floats, set_validated
from glbandits.common.errors import MAX_ABS, InvalidInput, check_float, check_int, lookup, value_text
from glbandits.maths.links import Link, find_link


@dataclass(frozen=True)
class Bounds:
    """The allowed range of a number."""

    above: float = -math.inf
    at_least: float = -math.inf
    at_most: float = MAX_ABS


Positive: TypeAlias = Annotated[float, Bounds(above=0)]
NonNegative: TypeAlias = Annotated[float, Bounds(at_least=0)]
Probability: TypeAlias = Annotated[float, Bounds(at_least=0, at_most=1)]
PositiveInt: TypeAlias = Annotated[int, Bounds(at_least=1)]
NonNegativeInt: TypeAlias = Annotated[int, Bounds(at_least=0)]
AnyLink: TypeAlias = str | Link


class Setting(NamedTuple):
    """One declared setting."""

    name: str
    kind: type
    """float, int, bool, str (one of `choices`), Link, or a dataclass of more settings."""
    bounds: Bounds
    choices: tuple[str, ...]
    """The allowed words. If the kind is float, they are allowed in addition to numbers."""
    optional: bool

    @property
    def is_packed(self) -> bool:
        """Whether compiled code can read this setting."""
        return self.kind in (float, int, bool, str)

    def validated(self, value: Any) -> Any:
        """Return the value as a built-in type.

        Raises InvalidInput or UnknownName if it is not allowed.
        """
        if value is None and self.optional:
            return None
        if self.kind is float and isinstance(value, str) and value in self.choices:
            return value
        if self.kind is Link:
            find_link(value)
            return value
        if self.kind is str:
            lookup(self.name, value, dict.fromkeys(self.choices))
            return value
        if self.kind is int:
            least = max(
                self.bounds.at_least, math.floor(self.bounds.above) + 1 if self.bounds.above > -1e18 else -(2**62)
            )
            return check_int(self.name, value, at_least=int(least), at_most=int(min(self.bounds.at_most, 2**62)))
        if self.kind is float:
            above, at_least, at_most = self.bounds.above, self.bounds.at_least, self.bounds.at_most
            return check_float(self.name, value, above=above, at_least=at_least, at_most=at_most, words=self.choices)
        if not isinstance(value, self.kind):
            raise InvalidInput(f"{self.name} must be {self.kind.__name__}(...); got {value_text(value)}")
        return value

    def packed(self, value: Any) -> float:
        """Return the value as the float that compiled code reads.

        A choice becomes its index. None becomes NaN, and so does a word where numbers are allowed too.
        """
        if value is None or (self.kind is float and isinstance(value, str)):
            return math.nan
        return float(self.choices.index(value) if self.kind is str else value)


@cache
def declared_settings(kind: Any) -> tuple[Setting, ...]:
    """Return the settings of a policy class, in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_parse_setting(kind, field.name, hints[field.name]) for field in fields(kind))


def _parse_setting(owner: type, name: str, hint: Any) -> Setting:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    optional = NoneType in parts
    parts = tuple(part for part in parts if part is not NoneType)
    if Link in parts:
        return Setting(name, Link, Bounds(), (), optional)
    words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    parts = tuple(part for part in parts if get_origin(part) is not Literal)
    if words and not parts:
        return Setting(name, str, Bounds(), words, optional)
    if len(parts) == 1:
        (part,) = parts
        base, *extras = get_args(part) if get_origin(part) is Annotated else (part,)
        bounds = next((extra for extra in extras if isinstance(extra, Bounds)), None)
        if base is float or (not words and (base in (int, bool) or is_dataclass(base))):
            return Setting(name, base, bounds or Bounds(), words, optional)
    raise InvalidInput(
        f"{owner.__name__}.{name} has the type {hint}, which a setting cannot have. Use float, int, bool, "
        "Literal[...], float | Literal[...], a link, or one of them with None. For bounds use Positive or "
        "Annotated[float, Bounds(...)]."
    )


def validate_settings(policy: object) -> None:
    """Validate every setting, and replace NumPy numbers by built-in ones."""
    for setting in declared_settings(_kind(policy)):
        set_validated(policy, **{setting.name: setting.validated(getattr(policy, setting.name))})


def _kind(policy: object) -> Any:
    return type(policy)


@cache
def packed_names(kind: Any) -> tuple[str, ...]:
    """Return the names under which compiled code reads settings: those that the class declares."""
    numbers = tuple(setting.name for setting in declared_settings(kind) if setting.is_packed)
    names: tuple[str, ...] = numbers if kind.compiled_settings is None else kind.compiled_settings
    for name in names:
        if name not in numbers and not callable(getattr(kind, name, None)):
            raise InvalidInput(
                f"compiled_settings of {kind.__name__} has {name!r}, which is neither a numeric setting nor a method "
                f"{name}(self, dim). Correct the name."
            )
    return names


def packed_settings(policy: Any, kind: type, dim: int) -> Floats:
    """Return the packed link of a policy (`Link.packed`) and the values of `packed_names(kind)` as one array."""
    declared = {setting.name: setting for setting in declared_settings(_kind(policy))}
    values = [
        declared[name].packed(getattr(policy, name)) if name in declared else float(getattr(policy, name)(dim))
        for name in packed_names(kind)
    ]
    return np.array([*find_link(policy.link).packed, *(values or [0.0])], dtype=np.float64)
