"""Base class of GLB-OMD and DOMD-GLB: UCB with online mirror descent."""

from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.cholesky import rank_one_update, solve_for_variance
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, dot, norm
from glbandits.policies.contract import AnyLink, Bounds, Grid, NonNegative, Policy, Positive, StateLayout
from glbandits.policies.shared.shared_settings import EXPLORATIONS

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
theta_of = LAYOUT.vector("theta")
factor_of = LAYOUT.factor("factor")
"""The Cholesky factor of H."""


class GlbOmdPolicy(Policy):
    """The settings, the index and the learning of GLB-OMD.

    For each reward y of an arm x, with g = mu(x'theta) - y:

    1. theta' = theta - eta g H~^-1 x, with H~ = H + eta mu'(x'theta) xx';
    2. theta = the projection of theta' onto ||theta|| <= S in the norm of H~;
    3. H += mu'(x'theta) xx', at the new theta.

    Args:
        link: mu, any link; the theory is for canonical ones.
        exploration: beta.
        step: eta.
        bound: S, an upper bound of ||theta*||.
        prior_precision: lambda. The initial H is lambda I. The paper's experiments use d.

    The theory's beta, eta and lambda explore far too much: docs/theory/glb-omd.md has them.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "bound", "step")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}

    link: AnyLink = "logistic"
    exploration: NonNegative = 3.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    step: Positive = 1.0
    prior_precision: Positive = 1.0

    def init(self, dim: int) -> Floats:
        return LAYOUT.allocate(dim, factor=self.prior_precision)

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_of(state, dim), factor_of(state, dim), settings.exploration, out)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take one step of mirror descent."""
        dim, eta = x.shape[0], settings.step
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
