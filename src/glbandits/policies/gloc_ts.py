"""GLOC-TS: GLOC with a draw in place of optimism (Jun, Bhargava, Nowak and Willett, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.numba_support import jittable
from glbandits.policy import Card
from glbandits.policy_bases.gloc_policy import THETA_HAT, GlocEstimator, factor_of, read, vector, width
from glbandits.maths.gaussian import draw_with_precision
from glbandits.maths.links import LinkFunctions
from glbandits.maths.vectors import best_arm
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class GlocTs(GlocEstimator):
    """Draw theta ~ N(theta_hat, c^2 V^-1) for each decision, with GLOC's theta_hat and V; pull the largest x'theta.

    The estimator and all settings are `GlocEstimator`'s. O(d^2 + K d) to choose.

    >>> from glbandits import Bandit, GlocTs
    >>> bandit = Bandit(GlocTs(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> bandit.choose([[-0.5], [0.2], [0.6]])
    2
    """

    name: ClassVar[str] = "gloc-ts"
    card: ClassVar[Card] = Card(
        choose="d^2 + K d",
        learn="d^2",
        memory="d^2",
        guarantee="d^(3/2) sqrt(T)/kappa",
        use_when="the same with many arms: each costs only d",
        page="gloc",
    )

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The best arm under a draw."""
        dim = arms.shape[1]
        radius = width(state, read(settings), dim)
        return best_arm(arms, draw_with_precision(vector(state, dim, THETA_HAT), factor_of(state, dim), radius, rng))

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """No exact form."""
        return False
