"""Settings that several policies share: their tuning grids, the warm-up, and the scale of the exploration."""

import math
from typing import Annotated

from glbandits.common.errors import InvalidInput
from glbandits.maths.links import find_link, slope_range
from glbandits.policies.contract import AnyLink, Bounds, NonNegative, Policy, Positive, derived

EXPLORATIONS = (0.01, 0.1, 1.0, 5.0, 10.0)
"""Scales of a bonus or posterior draw, and a of epsilon-greedy: the tuning grid of the SGD-TS paper. Policies that are
not in the paper use it too."""
STEPS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Step sizes, as in the paper."""
FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""C in tau = floor(C max(log T, d))."""


def warm_up_length(factor: float, horizon: int | None, dim: int) -> int:
    """Return tau = floor(C max(log T, d)), or floor(C d) without a horizon; at least 1."""
    log_T = math.log(horizon) if horizon is not None else 0.0
    return max(1, math.floor(factor * max(log_T, dim)))


class ExplorationSettings(Policy):
    """The scale of a bonus or posterior draw, and the constants that its theory needs.

    Args:
        exploration: the scale. None uses the width from the theory, which has a proof and explores far too much.
        bound: S, an upper bound of ||theta*||. The theory assumes features with ||x|| <= 1.
        failure: delta, the probability that the theory's width is too small.
    """

    exploration: NonNegative | None = 1.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 1.0
    failure: Annotated[float, Bounds(above=0, at_most=1)] = 0.05

    @derived
    def least_slope(self, dim: int) -> float:
        """The smallest slope mu'_min of the link over |z| <= S."""
        return slope_range(find_link(self.link), self.bound)[0]

    @derived
    def largest_slope(self, dim: int) -> float:
        """The largest slope mu'_max of the link over |z| <= S."""
        return slope_range(find_link(self.link), self.bound)[1]


class ExplorationSettingsWithNoise(ExplorationSettings):
    """`ExplorationSettings` for theories that also need the noise of the rewards.

    Args:
        noise: R, the sub-Gaussian parameter of the rewards. It is at most 1/2 for rewards in [0, 1].
    """

    noise: Positive = 0.5

    def mle_width(self, link: AnyLink, dim: int, horizon: int | None) -> float:
        """The width of maximum likelihood: (R/kappa) sqrt((d/2) log(1 + 2T/d) + log(1/delta)).

        With V = sum xx', |x'(theta_hat - theta*)| <= width ||x||_{V^-1} (Li, Lu and Zhou, 2017). kappa is the smallest
        slope of the link for theta within distance 1 of theta*.
        """
        if horizon is None:
            raise InvalidInput("exploration=None uses the width from the theory, which needs a horizon; got none")
        kappa, _ = slope_range(find_link(link), self.bound + 1.0)
        inside = 0.5 * dim * math.log(1.0 + 2.0 * horizon / dim) + math.log(1.0 / self.failure)
        return self.noise / kappa * math.sqrt(inside)

    def weighted_width(self, link: AnyLink, dim: int, horizon: int | None) -> float:
        """The width in the norm of H = sum mu' xx' <= mu'_max V: sqrt(mu'_max) times `mle_width`."""
        return math.sqrt(self.largest_slope(dim)) * self.mle_width(link, dim, horizon)
