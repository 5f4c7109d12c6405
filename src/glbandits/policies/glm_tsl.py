"""GLM-TSL: maximum likelihood each round, and a draw from its Laplace approximation (Kveton et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid
from glbandits.policy_bases.grids import EXPLORATIONS, FACTORS
from glbandits.policy_bases.mle_policy import (
    EXPLORATION,
    LEARNED,
    TAU,
    THETA,
    MleEstimator,
    factor_of,
    refit_with_curvature,
)
from glbandits.maths.gaussian import draw_with_precision
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import best_arm
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class GlmTsl(MleEstimator):
    """Draw theta ~ N(theta_hat, a^2 H^-1) for each decision, and pull the largest x'theta.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood on all rewards, H = its Hessian there, computed anew because every
       weight mu'(x'theta_hat) has moved; draw, and pull.

    Settings are `MleEstimator`'s; exploration is a. O(d^2 + K d) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit, GlmTsl
    >>> bandit = Bandit(GlmTsl(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-tsl"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    card: ClassVar[Card] = Card(
        choose="d^2 + K d",
        learn="t d^2",
        memory="t d",
        guarantee="d sqrt(T log K)",
        use_when="Thompson sampling with an exact fit each round",
        page="glm-tsl",
    )

    exploration: float | None = 0.3

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then the best under a draw."""
        dim = arms.shape[1]
        if state[LEARNED] < settings[TAU]:
            return any_index(rng, arms.shape[0])
        drawn = draw_with_precision(state[THETA : THETA + dim], factor_of(state, dim), settings[EXPLORATION], rng)
        return best_arm(arms, drawn)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, fit again, and take the curvature there."""
        return refit_with_curvature(state, settings, x, reward, link)

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up; no exact form after it."""
        out[:] = 1.0 / arms.shape[0]
        return bool(state[LEARNED] < settings[TAU])
