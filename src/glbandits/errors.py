"""The exception family. Every message says what was needed, what came, and how to mend it."""

from collections.abc import Iterable
from difflib import get_close_matches
from math import isfinite
from typing import SupportsFloat, SupportsIndex


class GlbanditsError(Exception):
    """Anything that glbandits refuses."""


class InvalidInput(GlbanditsError, ValueError):
    """A value that cannot be used. It was refused before anything changed."""


class UnknownName(GlbanditsError, ValueError):
    """A name that is not in the table it was looked up in."""


class ModelFileError(GlbanditsError, ValueError):
    """A file that does not hold a model this version can continue."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not in a table, with the nearest ones.

    >>> print(unknown_name("policy", "sgd-st", ["sgd-ts", "uniform"]))
    unknown policy 'sgd-st'; did you mean 'sgd-ts'? Known: sgd-ts, uniform
    """
    known = sorted(known)
    nearest = get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."
    return UnknownName(f"unknown {kind} {name!r}{hint} Known: {', '.join(known)}")


def check_number(
    name: str, value: float, *, above: float | None = None, at_least: float | None = None, at_most: float | None = None
) -> None:
    """Refuse a setting that is not a finite number in its range."""
    wanted = [f"above {above:g}"] if above is not None else []
    wanted += [f"at least {at_least:g}"] if at_least is not None else []
    wanted += [f"at most {at_most:g}"] if at_most is not None else []
    if (
        isinstance(value, bool)
        or not isinstance(value, SupportsFloat)
        or not isfinite(value)
        or (above is not None and not value > above)
        or (at_least is not None and not value >= at_least)
        or (at_most is not None and not value <= at_most)
    ):
        raise InvalidInput(f"{name} must be a finite number {' and '.join(wanted)}".rstrip() + f"; got {value!r}")


def check_whole(name: str, value: int, *, at_least: int) -> None:
    """Refuse a setting that is not a whole number, or too small."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or value < at_least:
        raise InvalidInput(f"{name} must be a whole number of at least {at_least}; got {value!r}")
