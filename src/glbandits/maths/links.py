"""Links: functions mu that map a score z = x'theta to an expected reward mu(z).

A link has four functions of one number: the mean mu, its inverse, its slope mu', and the antiderivative m of the mean
(m' = mu). The loss of an observation is m(z) - y z. Numba compiles the functions as a part of entry points. None of the
built-in functions overflows for |z| up to 1e4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

from scipy.special import ndtri

from glbandits.common.errors import InvalidInput, lookup
from glbandits.compilation.numba_support import jittable
from glbandits.compilation.shared_functions import share_for_link
from glbandits.maths.normal import normal_cdf, normal_density

Scalar: TypeAlias = Callable[[float], float]

GRID = 200
"""The number of points on each side of 0 at which constants of a link are computed."""


class LinkFunctions(NamedTuple):
    """The functions of a link that compiled policies receive."""

    mean: Scalar
    slope: Scalar
    antiderivative: Scalar


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
        for function in (self.mean, self.slope, self.antiderivative):
            jittable(function)
        share_for_link(LinkFunctions(self.mean, self.slope, self.antiderivative), self.name)

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

    def __reduce__(self) -> tuple[Callable[..., "Link"], tuple[dict[str, Any]]]:
        """Pickle a built-in link by its name, so that it is the same object in worker processes."""
        return _unpickled, ({field.name: getattr(self, field.name) for field in fields(self)},)

    def __repr__(self) -> str:
        return f"<{self.name} link>"

    @property
    def built_in(self) -> bool:
        """Whether the link is part of the package, so that its name identifies it."""
        return LINKS.get(self.name) is self

    def check_reward(self, reward: float) -> None:
        """Raise InvalidInput if a reward is outside the range of the link."""
        if not self.lowest_reward <= reward <= self.highest_reward or math.isinf(reward):
            raise InvalidInput(
                f"a reward under the {self.name} link must be a finite number between {self.lowest_reward:g} and "
                f"{self.highest_reward:g}; got {reward}. Scale the reward, or choose a link for its range"
            )


def _identity(z: float) -> float:
    return z


def _identity_slope(z: float) -> float:  # noqa: ARG001
    return 1.0


def _identity_antiderivative(z: float) -> float:
    return 0.5 * z * z


def _logistic(z: float) -> float:
    e = math.exp(-abs(z))  # at most 1, so there is no overflow
    return 1.0 / (1.0 + e) if z >= 0.0 else e / (1.0 + e)


def _logistic_slope(z: float) -> float:
    e = math.exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


def _logistic_antiderivative(z: float) -> float:
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def _probit_antiderivative(z: float) -> float:
    return z * normal_cdf(z) + normal_density(z)


_STRAIGHT = 120.0
"""Above this score the log link is a straight line, so that products of it do not overflow.

exp(120) is above MAX_ABS, the largest reward, so the fit of a reward never has such a score.
"""


def _log(z: float) -> float:
    return math.exp(min(z, _STRAIGHT)) * (1.0 + max(z - _STRAIGHT, 0.0))


def _log_slope(z: float) -> float:
    return math.exp(min(z, _STRAIGHT))


def _log_antiderivative(z: float) -> float:
    beyond = max(z - _STRAIGHT, 0.0)
    return math.exp(min(z, _STRAIGHT)) * (1.0 + beyond + 0.5 * beyond * beyond)


def _logarithm(mean: float) -> float:
    return math.log(mean) if mean > 0.0 else -math.inf


def _logit(mean: float) -> float:
    return _logarithm(mean) - _logarithm(1.0 - mean)


LINKS: dict[str, Link] = {}
LINKS["identity"] = Link(
    name="identity",
    mean=_identity,
    slope=_identity_slope,
    antiderivative=_identity_antiderivative,
    inverse=_identity,
    lipschitz=1.0,
)
LINKS["logistic"] = Link(
    name="logistic",
    mean=_logistic,
    slope=_logistic_slope,
    antiderivative=_logistic_antiderivative,
    inverse=_logit,
    lowest_reward=0.0,
    highest_reward=1.0,
    lipschitz=0.25,
)
LINKS["probit"] = Link(
    name="probit",
    mean=normal_cdf,
    slope=normal_density,
    antiderivative=_probit_antiderivative,
    inverse=lambda p: float(ndtri(p)),
    lowest_reward=0.0,
    highest_reward=1.0,
    lipschitz=1.0 / math.sqrt(2.0 * math.pi),
)
LINKS["log"] = Link(
    name="log",
    mean=_log,
    slope=_log_slope,
    antiderivative=_log_antiderivative,
    inverse=_logarithm,
    lowest_reward=0.0,
    lipschitz=math.inf,
)


def _unpickled(parts: dict[str, Any]) -> Link:
    return LINKS.get(parts["name"]) or Link(**parts)


def find_link(link: str | Link) -> Link:
    """Return a link unchanged, or the built-in link with this name.

    >>> find_link("logistic").mean(0.0)
    0.5
    """
    if isinstance(link, Link):
        return link
    return lookup("link", link, LINKS)


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
