"""The exceptions of the package, and checks of single values that raise them.

Every message names the requirement, the value received and what to do. A message refers to a parameter by
`parameter(...)`, so that the command line and the HTTP service can show their own names of it.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

Entry = TypeVar("Entry")

MAX_ABS = 1e50
"""The largest absolute value of a setting, a feature or a reward. Squares of sums of such numbers do not overflow."""


REFERENCE = re.compile('\ue000(\\[".*?\\])\ue001')
"""A reference to a parameter within a message, between two private-use characters: a JSON list of its fields."""


KIND_WITH_WIDTH = re.compile(r"'(text|hashed):(\d+)'")
"""A kind of column with its number of features, as on the command line, in the `repr` of a value."""


class Parameter(NamedTuple):
    """A parameter that a message refers to, and maybe a value for it."""

    field: str
    """The name in Python. The field of a settings object is written as "Columns.arm"."""
    has_value: bool = False
    value: Any = None
    """The value that the message recommends, if `has_value`."""

    @property
    def name(self) -> str:
        """The name without that of the settings object."""
        return self.field.rpartition(".")[2]

    def in_python(self) -> str:
        """Write the parameter as in a call of Python.

        A kind with a width, such as "text:1024", is written as an object.

        >>> Parameter("arm_table").in_python(), Parameter("Columns.propensity", True, None).in_python()
        ('arm_table', 'Columns(propensity=None)')
        >>> Parameter("kinds", True, {"search": "text:1024"}).in_python()
        "kinds={'search': Text(1024)}"
        """
        owner, value = self.field.rpartition(".")[0], repr(self.value)
        if self.field == "kinds":
            value = KIND_WITH_WIDTH.sub(lambda match: f"{match[1].title()}({match[2]})", value)
        if not owner:
            return f"{self.name}={value}" if self.has_value else self.name
        return f"{owner}({self.name}={value if self.has_value else '...'})"


def parameter(field: str, *value: Any) -> str:
    """Return a reference to a parameter, for use in the message of a GlbanditsError.

    Args:
        field: the name in Python; the field of a settings object as "Columns.arm".
        value: at most one: the value to set, of a type that JSON has.

    >>> error = InvalidInput(f"column 'age' has missing values. Set {parameter('missing', 'impute')}")
    >>> print(error)
    column 'age' has missing values. Set missing='impute'
    >>> error.name_parameters(lambda parameter: f"--{parameter.name} {parameter.value}")
    >>> print(error)
    column 'age' has missing values. Set --missing impute
    """
    return f"\ue000{json.dumps([field, bool(value), *value])}\ue001"


class GlbanditsError(Exception):
    """Base class of all errors that glbandits raises on purpose.

    `str(error)` names parameters as in Python. An interface in which they have other names, such as options of the
    command line, calls `name_parameters` before it shows the error.
    """

    @property
    def template(self) -> str:
        """The message with its references to parameters, for an error that quotes this one."""
        return super().__str__()

    @property
    def fields(self) -> tuple[str, ...]:
        """The parameters that the message refers to, by their names in Python."""
        return tuple(_parameter(match).field for match in REFERENCE.finditer(self.template))

    def name_parameters(self, name: Callable[[Parameter], str]) -> None:
        """Replace all references by the names that `name` returns. Later calls find no reference, and do nothing."""
        self.args = (REFERENCE.sub(lambda match: name(_parameter(match)), self.template),)

    def __str__(self) -> str:
        return REFERENCE.sub(lambda match: _parameter(match).in_python(), self.template)


def _parameter(match: re.Match[str]) -> Parameter:
    return Parameter(*json.loads(match[1]))


class InvalidInput(GlbanditsError, ValueError):
    """A value that cannot be used. The check runs before any state changes."""


class UnknownName(GlbanditsError, ValueError):
    """A name that is not in the table of known names."""


class ModelFileError(GlbanditsError, ValueError):
    """A model file that this version cannot load."""


class MissingExtra(GlbanditsError, ModuleNotFoundError):
    """A module that an extra of the package installs, such as `glbandits[lab]`, is missing."""


def value_text(value: object, length: int = 60) -> str:
    """Return the `repr` of a value for a message, cut to `length` characters. NumPy scalars print as plain values.

    >>> import numpy as np
    >>> value_text(np.float64(0.1)), value_text([np.str_("a"), np.int64(3)])
    ('0.1', "['a', 3]")
    """
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return repr(value)[:length]
    with numpy.printoptions(legacy="1.25"):  # later versions print np.float64(0.1)
        return repr(value)[:length]


def lookup(kind: str, name: object, table: Mapping[str, Entry], *, listed: int | None = None) -> Entry:
    """Return the entry of this name. Raises UnknownName with the closest known names.

    The message lists all known names, or the first `listed` of them.

    >>> lookup("policy", "SGD-st", {"sgd-ts": 1, "uniform": 2})
    Traceback (most recent call last):
    glbandits.common.errors.UnknownName: unknown policy 'SGD-st'; did you mean 'sgd-ts'? Known: sgd-ts, uniform
    """
    if isinstance(name, str) and name in table:
        return table[name]
    nearest = get_close_matches(str(name).lower(), list(table), n=2, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else "."
    known = sorted(table)[:listed]
    more = f" and {len(table) - len(known):,} more" if len(known) < len(table) else ""
    raise UnknownName(f"unknown {kind} {value_text(name, 200)}{hint} Known: {', '.join(known)}{more}")


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
    caller accepts instead of a number. The message refers to `name` as a parameter if it is an identifier.
    """
    try:
        checked = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    except OverflowError:
        checked = math.inf
    if not (above < checked and at_least <= checked <= at_most):
        wanted = [f"above {above:g}"] if above > -math.inf else []
        wanted += [f"at least {at_least:g}"] if at_least > -math.inf else []
        wanted += [f"at most {at_most:g}"] if at_most < MAX_ABS or checked > at_most else []
        bounds = f" {' and '.join(wanted)}" if wanted else ""
        bounds += "".join(f", or {word!r}" for word in words)
        raise InvalidInput(f"{_reference(name)} must be a finite number{bounds}; got {value_text(value, 40)}")
    return checked


def check_int(name: str, value: Any, *, at_least: int, at_most: int = 2**62) -> int:
    """Return the value as an int. Raises InvalidInput if it is not an integer in its range."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (is_whole and at_least <= value <= at_most):
        wanted = f"of at least {at_least}" + (f" and at most {at_most}" if is_whole and value > at_most else "")
        raise InvalidInput(f"{_reference(name)} must be a whole number {wanted}; got {value_text(value, 40)}")
    return int(value)


def _reference(name: str) -> str:
    return parameter(name) if name.isidentifier() else name
