"""GLOC: online Newton steps turned into a confidence set (Jun, Bhargava, Nowak and Willett, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.numba_support import jittable
from glbandits.policy import Card
from glbandits.policy_bases.gloc_policy import THETA_HAT, GlocEstimator, factor_of, read, vector, width
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.links import LinkFunctions
from glbandits.maths.vectors import point_mass
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class Gloc(GlocEstimator):
    """Pull the largest x'theta_hat + c ||x|| in V^-1, where theta_hat regresses what online Newton steps predicted.

    The estimator and all settings are `GlocEstimator`'s. O(K d^2) to choose.

    >>> from glbandits import Bandit, Gloc
    >>> bandit = Bandit(Gloc(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> bandit.choose([[-0.5], [0.2], [0.6]])
    2
    """

    name: ClassVar[str] = "gloc"
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="d^2",
        memory="d^2",
        guarantee="d sqrt(T)/kappa",
        use_when="constant cost with a proof, and theta* known to be small",
        page="gloc",
    )

    exploration: float | None = 3.0

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        dim = arms.shape[1]
        radius = width(state, read(settings), dim)
        return best_with_bonus(arms, vector(state, dim, THETA_HAT), factor_of(state, dim), radius)

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        dim = arms.shape[1]
        radius = width(state, read(settings), dim)
        point_mass(out, best_with_bonus(arms, vector(state, dim, THETA_HAT), factor_of(state, dim), radius))
        return True
