"""How widely a policy explores: by a plain scale, or by the width that its theory proves."""

import math
from typing import Annotated

from glbandits.errors import InvalidInput
from glbandits.maths.links import find_link, slope_range
from glbandits.policy import AnyLink, Bounds, NonNegative, Policy, Positive


class Width(Policy):
    """The scale of a bonus or of a draw, and the constants that every theory of it asks for.

    Args:
        exploration: the scale; None for the theory's width, which is safe and explores far too much.
        bound: S, a bound for ||theta*||; features are taken to have ||x|| <= 1.
        failure: delta, the probability that the theory's width is too small.
    """

    exploration: NonNegative | None = 1.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 1.0
    failure: Annotated[float, Bounds(above=0, at_most=1)] = 0.05


class Confidence(Width):
    """The same where the theory asks for the noise of rewards too.

    Args:
        noise: R, the sub-Gaussian parameter of rewards: 1/2 for any in [0, 1].
    """

    noise: Positive = 0.5

    def mle_width(self, link: AnyLink, dim: int, horizon: int | None) -> float:
        """The width of maximum likelihood: (R/kappa) sqrt((d/2) log(1 + 2T/d) + log(1/delta)).

        With it and V = sum xx', |x'(theta_hat - theta*)| <= width ||x|| in V^-1 (Li, Lu and Zhou, 2017), where kappa
        is the least slope within 1 of theta*.
        """
        if horizon is None:
            raise InvalidInput("exploration=None is the theory's width, which needs a horizon; got none")
        kappa, _ = slope_range(find_link(link), self.bound + 1.0)
        inside = 0.5 * dim * math.log(1.0 + 2.0 * horizon / dim) + math.log(1.0 / self.failure)
        return self.noise / kappa * math.sqrt(inside)

    def weighted_width(self, link: AnyLink, dim: int, horizon: int | None) -> float:
        """The same in a norm that is weighted by the link's slope: H <= mu'_max V, so sqrt(mu'_max) times as much."""
        _, steepest = slope_range(find_link(link), self.bound)
        return math.sqrt(steepest) * self.mle_width(link, dim, horizon)
