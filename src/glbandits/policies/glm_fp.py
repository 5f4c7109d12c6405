"""GLM-FP: maximum likelihood each round, and one shared perturbation of the features (Yi and Oh, 2025)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.policy_bases.mle_policy import (
    EXPLORATION,
    LEARNED,
    TAU,
    THETA,
    MleEstimator,
    factor_of,
    refit_with_curvature,
)
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index, normal
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class GlmFp(MleEstimator):
    """Pull the largest x'theta_hat + c Z ||x|| in H^-1, with one normal number Z for all arms of a round.

    theta_hat is the maximum likelihood estimate from all rewards and H its Hessian there. The paper adds
    c ||x|| zeta / ||theta_hat|| to every x, with one zeta ~ N(0, I) a round; its product with theta_hat is c Z ||x||.

    Settings are `MleEstimator`'s; exploration is c, and ridge and prior_precision are the paper's lambda, 1 by default.
    There is no warm-up by default. O(K d^2) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit, GlmFp
    >>> bandit = Bandit(GlmFp(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-fp"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="t d^2",
        memory="t d",
        guarantee="d sqrt(T)",
        use_when="as online-laplace, with an exact fit each round",
        page="glm-fp",
    )

    warm_up: int | None = 0
    ridge: float = 1.0
    prior_precision: float = 1.0

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during a warm-up, then the best with the perturbation of this round."""
        dim = arms.shape[1]
        if state[LEARNED] < settings[TAU]:
            return any_index(rng, arms.shape[0])
        scale = settings[EXPLORATION] * normal(rng)
        return best_with_bonus(arms, state[THETA : THETA + dim], factor_of(state, dim), scale)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, fit again, and take the curvature there."""
        return refit_with_curvature(state, settings, x, reward, link)

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during a warm-up; no exact form after it."""
        out[:] = 1.0 / arms.shape[0]
        return bool(state[LEARNED] < settings[TAU])
