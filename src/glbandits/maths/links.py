"""Links: functions mu that map a score z = x'theta to an expected reward mu(z).

A link has four functions of one number: the mean mu, its inverse, its slope mu', and the antiderivative m of the mean
(m' = mu). The loss of an observation is m(z) - y z. None of the built-in functions overflows for |z| up to 1e4.

Compiled code gets a built-in link as its number, `BuiltInLink`, from the packed settings at run time: it is compiled
once for all built-in links. It gets a user's link as `LinkFunctions`, which are compiled into it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

from scipy.special import ndtri

from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS, InvalidInput, lookup
from glbandits.compilation.compiled_classes import with_compiled_methods
from glbandits.compilation.numba_support import jittable
from glbandits.compilation.shared_functions import share_for_built_in_links, share_for_link

Scalar: TypeAlias = Callable[[float], float]

GRID = 200
"""The number of points on each side of 0 at which constants of a link are computed."""


class LinkFunctions(NamedTuple):
    """A user's link, as compiled policies receive it: functions with the names of the methods of `BuiltInLink`."""

    mean: Scalar
    slope: Scalar
    antiderivative: Scalar


IDENTITY, LOGISTIC, PROBIT, LOG = 0, 1, 2, 3
"""The numbers of the built-in links."""
STRAIGHT = 120.0
"""Above this score the log link is a straight line, so that products of it do not overflow.

exp(120) is above MAX_ABS, the largest reward, so the fit of a reward never has such a score.
"""


@with_compiled_methods
@dataclass(frozen=True)
class BuiltInLink:
    """A built-in link, as compiled policies receive it."""

    number: int

    def mean(self, z: float) -> float:
        """mu(z)."""
        if self.number == IDENTITY:
            return z
        if self.number == PROBIT:
            return 0.5 * math.erfc(-z / math.sqrt(2.0))
        if self.number == LOG:
            return math.exp(min(z, STRAIGHT)) * (1.0 + max(z - STRAIGHT, 0.0))
        e = math.exp(-abs(z))  # at most 1, so there is no overflow
        return (1.0 if z >= 0.0 else e) / (1.0 + e)

    def slope(self, z: float) -> float:
        """mu'(z)."""
        if self.number == IDENTITY:
            return 1.0
        if self.number == PROBIT:
            return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        if self.number == LOG:
            return math.exp(min(z, STRAIGHT))
        e = math.exp(-abs(z))
        return e / ((1.0 + e) * (1.0 + e))

    def antiderivative(self, z: float) -> float:
        """m(z)."""
        if self.number == IDENTITY:
            return 0.5 * z * z
        if self.number == PROBIT:
            return z * (0.5 * math.erfc(-z / math.sqrt(2.0))) + math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        if self.number == LOG:
            beyond = max(z - STRAIGHT, 0.0)
            return math.exp(min(z, STRAIGHT)) * (1.0 + beyond + 0.5 * beyond * beyond)
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


share_for_built_in_links(BuiltInLink)


@dataclass(frozen=True, kw_only=True, eq=False)
class Link:
    """A strictly increasing mean function with its derivative, inverse and range.

    Numba must be able to compile the functions: use arithmetic, `if`, and the `math` module. The constructor checks at
    some scores that the functions are consistent, and raises InvalidInput if they are not.

    >>> import math
    >>> cauchit = Link(
    ...     name="cauchit",
    ...     mean=lambda z: 0.5 + math.atan(z) / math.pi,
    ...     slope=lambda z: 1 / (math.pi * (1 + z * z)),
    ...     antiderivative=lambda z: z / 2 + (z * math.atan(z) - math.log(1 + z * z) / 2) / math.pi,
    ...     inverse=lambda p: math.tan(math.pi * (p - 0.5)),
    ...     lowest_reward=0.0,
    ...     highest_reward=1.0,
    ...     lipschitz=1 / math.pi,
    ... )
    >>> cauchit.mean(1.0)
    0.75
    """

    name: str
    mean: Scalar
    """mu(z), strictly increasing."""
    slope: Scalar
    """mu'(z)."""
    antiderivative: Scalar
    """m(z), with m' = mu."""
    inverse: Scalar
    """The score z with mu(z) equal to the argument."""
    lowest_reward: float = -math.inf
    highest_reward: float = math.inf
    lipschitz: float
    """The smallest L with mu' <= L everywhere; infinite if the slope is unbounded."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or LINKS.get(self.name, self) is not self:
            raise InvalidInput(
                f"name must be a text that is not the name of a built-in link; got {self.name!r}. Choose another name"
            )
        if not self.lowest_reward < self.highest_reward:
            raise InvalidInput(
                f"link {self.name!r}: lowest_reward must be below highest_reward; got {self.lowest_reward} and "
                f"{self.highest_reward}"
            )
        for z in (-2.0, -0.5, 0.0, 0.7, 1.5):
            self._check_at(z)
        for function in self.functions:
            jittable(function)
        share_for_link(self.functions, self.name)

    def _check_at(self, z: float, h: float = 1e-5) -> None:
        mean, slope = self.mean(z), self.slope(z)
        if not self.mean(z - h) < self.mean(z + h):
            raise InvalidInput(f"link {self.name!r}: mean must be strictly increasing; it is not at z = {z}")
        for function, derivative, rule in (
            (self.mean, slope, "slope must be the derivative of mean"),
            (self.antiderivative, mean, "mean must be the derivative of antiderivative"),
        ):
            numeric = (function(z + h) - function(z - h)) / (2 * h)
            if not abs(numeric - derivative) <= 1e-4 * (1 + abs(derivative)):
                raise InvalidInput(
                    f"link {self.name!r}: {rule}; at z = {z} it is {derivative}, but the numeric derivative is "
                    f"{numeric}"
                )
        back = self.mean(self.inverse(mean))
        if not abs(back - mean) <= 1e-6 * (1 + abs(mean)):
            raise InvalidInput(
                f"link {self.name!r}: inverse must be the inverse of mean; mean(inverse({mean})) is {back}"
            )
        if not slope <= self.lipschitz * (1 + 1e-9):
            raise InvalidInput(
                f"link {self.name!r}: lipschitz must be the largest slope; got {self.lipschitz}, but the slope at "
                f"z = {z} is {slope}"
            )

    def __reduce__(self) -> tuple[Callable[..., "Link"], tuple[Any]]:
        """Pickle a built-in link by its name, so that it is the same object in worker processes."""
        if self.built_in:
            return find_link, (self.name,)
        return _unpickled, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def __repr__(self) -> str:
        return f"<{self.name} link>"

    @property
    def built_in(self) -> bool:
        """Whether the link is part of the package, so that its name identifies it."""
        return LINKS.get(self.name) is self

    @property
    def functions(self) -> LinkFunctions:
        """The functions as compiled policies receive those of a user's link."""
        return LinkFunctions(self.mean, self.slope, self.antiderivative)

    @property
    def packed(self) -> tuple[float, float, float]:
        """The number of a built-in link, -1 for a user's, with the range of rewards: the front of packed settings."""
        number = list(LINKS.values()).index(self) if self.built_in else -1
        return float(number), self.lowest_reward, self.highest_reward

    def check_reward(self, reward: float) -> None:
        """Raise InvalidInput if a reward is outside the range of the link."""
        if not self.lowest_reward <= reward <= self.highest_reward or math.isinf(reward):
            raise InvalidInput(
                f"a reward under the {self.name} link must be a finite number between {self.lowest_reward:g} and "
                f"{self.highest_reward:g}; got {reward}. Scale the reward, or choose a link for its range"
            )


def _logarithm(mean: float) -> float:
    return math.log(mean) if mean > 0.0 else -math.inf


def _logit(mean: float) -> float:
    return _logarithm(mean) - _logarithm(1.0 - mean)


def _built_in(name: str, number: int, **parts: Any) -> Link:
    """Return a link whose functions are the methods of `BuiltInLink`, as functions that compiled code can call too."""

    def mean(z: float) -> float:
        return BuiltInLink(number).mean(z)

    def slope(z: float) -> float:
        return BuiltInLink(number).slope(z)

    def antiderivative(z: float) -> float:
        return BuiltInLink(number).antiderivative(z)

    return Link(name=name, mean=mean, slope=slope, antiderivative=antiderivative, **parts)


LINKS: dict[str, Link] = {}
"""The built-in links, in the order of their numbers."""
LINKS["identity"] = _built_in("identity", IDENTITY, inverse=lambda mean: mean, lipschitz=1.0)
LINKS["logistic"] = _built_in(
    "logistic", LOGISTIC, inverse=_logit, lowest_reward=0.0, highest_reward=1.0, lipschitz=0.25
)
LINKS["probit"] = _built_in(
    "probit",
    PROBIT,
    inverse=lambda mean: float(ndtri(mean)),
    lowest_reward=0.0,
    highest_reward=1.0,
    lipschitz=1.0 / math.sqrt(2.0 * math.pi),
)
LINKS["log"] = _built_in("log", LOG, inverse=_logarithm, lowest_reward=0.0, lipschitz=math.inf)


def _unpickled(parts: dict[str, Any]) -> Link:
    return Link(**parts)


def find_link(link: str | Link) -> Link:
    """Return a link unchanged, or the built-in link with this name.

    >>> find_link("logistic").mean(0.0)
    0.5
    """
    if isinstance(link, Link):
        return link
    return lookup("link", link, LINKS)


PACKED = 3
"""The size of `Link.packed`."""
NUMBER, LOWEST, HIGHEST = range(PACKED)
"""The indices in it."""


def own_link(link: str | Link) -> Link | None:
    """Return the link that compiled code is specialised for: a user's; None for all built-in links."""
    found = find_link(link)
    return None if found.built_in else found


def link_reader(own: Link | None) -> Callable[[Floats], Any]:
    """Return a function that compiled code calls for the link of packed settings.

    It returns a `BuiltInLink`, or the LinkFunctions of the user's link.
    """
    if own is None:
        return read_built_in_link
    mean, slope, antiderivative = own.functions

    def read(packed: Floats) -> LinkFunctions:  # noqa: ARG001
        return LinkFunctions(mean, slope, antiderivative)

    return jittable(read)


@jittable
def read_built_in_link(packed: Floats) -> BuiltInLink:
    """Return the built-in link of packed settings."""
    return BuiltInLink(int(packed[NUMBER]))


@jittable
def is_allowed(packed: Floats, reward: float) -> bool:
    """Whether a reward is finite and in the range of the link of packed settings."""
    return bool(packed[LOWEST] <= reward <= packed[HIGHEST] and abs(reward) <= MAX_ABS)


def slope_range(link: Link, bound: float) -> tuple[float, float]:
    """The smallest and the largest slope of the mean for scores |z| <= bound, on a fine grid.

    >>> [round(slope, 6) for slope in slope_range(LINKS["logistic"], 1.0)]
    [0.196612, 0.25]
    """
    slopes = [link.slope(bound * step / GRID) for step in range(-GRID, GRID + 1)]
    if not (min(slopes) >= 1e-100 and max(slopes) <= 1e100):
        raise InvalidInput(
            f"bound is too large: the slope of the {link.name} link for |z| <= bound must be neither 0 nor infinite. "
            f"With {bound:g}, the slope ranges from {min(slopes):g} to {max(slopes):g}. Choose a smaller bound"
        )
    return min(slopes), max(slopes)
