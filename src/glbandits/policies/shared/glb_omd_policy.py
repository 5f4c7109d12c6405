"""Base class of GLB-OMD and DOMD-GLB: UCB with online mirror descent."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import rank_one_update, solve_for_variance
from glbandits.maths.links import LinkFunctions, find_link, self_concordance
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, dot, norm
from glbandits.policies.contract import AnyLink, Bounds, Grid, NonNegative, Positive, StateLayout, derived
from glbandits.policies.shared.shared_settings import EXPLORATIONS, ExplorationSettings

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
theta_of = LAYOUT.vector("theta")
factor_of = LAYOUT.factor("factor")
"""The Cholesky factor of H."""


class GlbOmdPolicy(ExplorationSettings):
    """The settings, the index and the learning of GLB-OMD.

    For each reward y of an arm x, with g = mu(x'theta) - y, and eta = 1 + R S, where R bounds |mu''|/mu':

    1. theta' = theta - eta g H~^-1 x, with H~ = H + eta mu'(x'theta) xx';
    2. theta = the projection of theta' onto ||theta|| <= S in the norm of H~;
    3. H += mu'(x'theta) xx', at the new theta.

    Args:
        link: mu, any link; the theory is for canonical ones.
        exploration: beta. None uses the theory's: beta^2 = 4 lambda S^2 + 2 eta log(1/delta)
            + d eta (1 + 6 eta) log(1 + mu'_max t/(lambda d)).
        step: eta. None, or exploration=None, uses the theory's.
        bound: S, an upper bound of ||theta*||.
        prior_precision: lambda. The initial H is lambda I. None, or exploration=None, uses the theory's
            max(14 d eta R^2, 6 eta R S mu'_max). The paper's experiments use d.
        failure: delta. Used by the theory's beta only.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}

    link: AnyLink = "logistic"
    exploration: NonNegative | None = 3.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    step: Positive | None = 1.0
    prior_precision: Positive | None = 1.0

    @derived
    def eta(self, dim: int) -> float:
        """The step size."""
        if self.step is not None and self.exploration is not None:
            return self.step
        return 1.0 + self.bound * self_concordance(find_link(self.link), self.bound)

    @derived
    def precision(self, dim: int) -> float:
        """The prior precision lambda.

        For R = 0, as with the identity link, the theory allows 0; we take 1.
        """
        if self.prior_precision is not None and self.exploration is not None:
            return self.prior_precision
        eta, R = self.eta(dim), self_concordance(find_link(self.link), self.bound)
        return max(14.0 * dim * eta * R**2, 6.0 * eta * R * self.bound * self.largest_slope(dim)) or 1.0

    def init(self, dim: int) -> Floats:
        return LAYOUT.allocate(dim, factor=self.precision(dim))

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_of(state, dim), factor_of(state, dim), width(state, settings, dim), out)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take one step of mirror descent."""
        dim, eta = x.shape[0], settings.eta
        theta, R = theta_of(state, dim), factor_of(state, dim)
        z = dot(x, theta)
        direction = np.empty(dim)
        # H~^-1 x is H^-1 x / (1 + eta mu' x'H^-1 x): lines 1 and 2
        shorter = 1.0 + eta * link.slope(z) * solve_for_variance(R, x, direction)
        add_scaled(theta, eta * (reward - link.mean(z)) / shorter, direction)
        if norm(theta) > settings.bound:
            stepped = R.copy()
            rank_one_update(stepped, eta * link.slope(z), x)
            project_in_norm(theta, stepped, settings.bound)
        rank_one_update(R, link.slope(dot(x, theta)), x)  # line 3
        state[LEARNED] += 1.0
        return state


@jittable
def width(state: Floats, settings: Any, dim: int) -> float:
    """The current beta."""
    if settings.exploration >= 0.0:
        return float(settings.exploration)
    eta, precision = settings.eta, settings.precision
    growth = math.log(1.0 + settings.largest_slope * state[LEARNED] / (precision * dim))
    squared = 4.0 * precision * (settings.bound * settings.bound) + 2.0 * eta * math.log(1.0 / settings.failure)
    return math.sqrt(squared + dim * eta * (1.0 + 6.0 * eta) * growth)
