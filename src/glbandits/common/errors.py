"""The exceptions of the package, and checks of single values that raise them.

Every message names the requirement, the value received and what to do.
"""

import math
import re
import sys
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

Entry = TypeVar("Entry")

MAX_ABS = 1e50
"""The largest absolute value of a setting, a feature or a reward. Squares of sums of such numbers do not overflow."""


class GlbanditsError(Exception):
    """Base class of all errors that glbandits raises on purpose.

    The message names parameters as in Python. The command line adds the option of `field`.
    """

    field: str | None
    """The parameter of Python that the message is about, such as "missing" or "Columns.context"; None if unknown."""

    def __init__(self, *args: object, field: str | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.field = field


class InvalidInput(GlbanditsError, ValueError):
    """A value that cannot be used. The check runs before any state changes."""


class UnknownName(GlbanditsError, ValueError):
    """A name that is not in the table of known names."""


class ModelFileError(GlbanditsError, ValueError):
    """A model file that this version cannot load."""


class MissingExtra(GlbanditsError, ModuleNotFoundError):
    """A module that an extra of the package installs, such as lab, is missing."""


def value_text(value: object, length: int = 60) -> str:
    """Return the `repr` of a value for a message, in one line, cut to `length` characters.

    NumPy scalars print as plain values.

    >>> import numpy as np
    >>> value_text(np.float64(0.1)), value_text([np.str_("a"), np.int64(3)])
    ('0.1', "['a', 3]")
    """
    numpy = sys.modules.get("numpy")
    with numpy.printoptions(legacy="1.25") if numpy else nullcontext():  # later versions print np.float64(0.1)
        try:
            text = repr(value)
        except Exception:  # `__repr__` of a user's class
            text = f"<object of {type(value).__name__}>"
    return re.sub(r"\s*\n\s*", " ", text)[:length]


def lookup(kind: str, name: object, table: Mapping[str, Entry], *, listed: int | None = None) -> Entry:
    """Return the entry of this name. Raises UnknownName with the closest known names.

    The message lists all known names, or the first `listed` of them.

    >>> lookup("policy", "SGD-st", {"sgd-ts": 1, "uniform": 2})
    Traceback (most recent call last):
    glbandits.common.errors.UnknownName: unknown policy 'SGD-st'; did you mean 'sgd-ts'? Known: sgd-ts, uniform
    """
    if isinstance(name, str) and name in table:
        return table[name]
    raise UnknownName(f"unknown {kind} {value_text(name, 200)}{known_names(str(name), table, listed=listed)}")


def known_names(name: str, table: Collection[str], *, listed: int | None = None) -> str:
    """Return the end of a message about an unknown name: the closest known names, and all or the first `listed`."""
    nearest = get_close_matches(name.lower(), list(table), n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."
    known = sorted(table)[:listed]
    more = f" and {len(table) - len(known):,} more" if len(known) < len(table) else ""
    return f"{hint} Known: {', '.join(known)}{more}"


def check_float(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = MAX_ABS,
    words: tuple[str, ...] = (),
) -> float:
    """Return the value as a float.

    Raises InvalidInput if it is not a finite number in its range. The error message also offers `words`, which the
    caller accepts instead of a number. `name` is the field of the error if it is an identifier.
    """
    try:
        checked = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    except OverflowError:
        checked = math.inf
    if not (above < checked and at_least <= checked <= at_most):
        wanted = [f"above {above:g}"] if above > -math.inf else []
        wanted += [f"at least {at_least:g}"] if at_least > -math.inf else []
        wanted += [f"at most {at_most:.12g}"] if at_most < MAX_ABS or checked > at_most else []
        bounds = f" {' and '.join(wanted)}" if wanted else ""
        bounds += "".join(f", or {word!r}" for word in words)
        raise InvalidInput(f"{name} must be a finite number{bounds}; got {value_text(value, 40)}", field=_field(name))
    return checked


def check_int(name: str, value: Any, *, at_least: int, at_most: int = 2**62) -> int:
    """Return the value as an int. Raises InvalidInput if it is not an integer in its range."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and at_least <= value <= at_most):
        wanted = f"of at least {at_least}" + (f" and at most {at_most}" if is_whole and value > at_most else "")
        raise InvalidInput(f"{name} must be a whole number {wanted}; got {value_text(value, 40)}", field=_field(name))
    return int(value)


def check_bool(name: str, value: Any) -> bool:
    """Return the value as a bool. Raises InvalidInput unless it is True or False, of Python or NumPy."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise InvalidInput(f"{name} must be True or False; got {value_text(value, 40)}", field=_field(name))
    return bool(value)


def _field(name: str) -> str | None:
    return name if name.isidentifier() else None
