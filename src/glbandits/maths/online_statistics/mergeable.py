"""Mergeable: what is kept of one part of the rows, and can be joined with that of the next part."""

from collections.abc import Callable, Mapping
from operator import add, and_, or_
from typing import Any, ClassVar, Self

Rule = Callable[[Any, Any], Any]


class Mergeable:
    """Base class of sums over rows.

    `rules` says of each attribute how its value in a part is joined with that in the next part. Other attributes are
    settings, which are the same in all parts.
    """

    rules: ClassVar[Mapping[str, Rule]] = {}

    def merge(self, later: Self) -> None:
        """Add the rows of the next part."""
        for name, join in self.rules.items():
            setattr(self, name, join(getattr(self, name), getattr(later, name)))


def merged(own: Any, later: Any) -> Any:
    """Merge two Mergeables, or two sequences or dicts of them; None stays None."""
    if isinstance(own, Mergeable):
        own.merge(later)
    elif isinstance(own, Mapping):
        for key, each in own.items():
            each.merge(later[key])
    elif own is not None:
        for each, other in zip(own, later, strict=True):
            each.merge(other)
    return own


def known(own: Any, later: Any) -> Any:
    """Return what one of two parts knows."""
    return later if own is None else own


def added(*names: str) -> dict[str, Rule]:
    """Rules for numbers and arrays that are added."""
    return dict.fromkeys(names, add)


SMALLEST, LARGEST, ANY, ALL = min, max, or_, and_
