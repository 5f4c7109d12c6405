"""UCB-GLM: maximum likelihood each round, and an optimistic bonus (Li, Lu and Zhou, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.compiled import jittable
from glbandits.contract import Card, Grid
from glbandits.estimators.grids import EXPLORATIONS, FACTORS
from glbandits.estimators.mle_estimator import (
    EXPLORATION,
    LEARNED,
    RIDGE,
    TAU,
    THETA,
    MleEstimator,
    factor_of,
    history_at,
)
from glbandits.maths.cholesky import update
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.history import refit, remember
from glbandits.maths.links import LinkFunctions
from glbandits.maths.randomness import any_index
from glbandits.maths.vectors import point_mass
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class UcbGlm(MleEstimator):
    """Pull the largest x'theta_hat + alpha ||x|| in V^-1, where theta_hat is the estimate from all rewards so far.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood on all rewards; pull argmax x'theta_hat + alpha ||x|| in V^-1, on the
       linear scale; V += xx', not weighted by the link's slope.

    Settings are `MleEstimator`'s; exploration is alpha. O(K d^2) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit, UcbGlm
    >>> bandit = Bandit(UcbGlm(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ucb-glm"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="t d^2",
        memory="t d",
        guarantee="d sqrt(T), contexts drawn independently",
        use_when="a deterministic rule, and time for an exact fit each round",
        page="ucb-glm",
    )

    exploration: float | None = 3.0

    def scale(self, dim: int) -> float:
        """Alpha; the theory's is for the unweighted norm as it is."""
        return self.exploration if self.exploration is not None else self.mle_width(self.link, dim, self.horizon)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then the most optimistic one."""
        dim = arms.shape[1]
        if state[LEARNED] < settings[TAU]:
            return any_index(rng, arms.shape[0])
        return best_with_bonus(arms, state[THETA : THETA + dim], factor_of(state, dim), settings[EXPLORATION])

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, add to V, and fit again."""
        dim = x.shape[0]
        state = remember(state, history_at(dim), x, reward)
        update(factor_of(state, dim), 1.0, x)
        state[LEARNED] += 1.0
        if state[LEARNED] >= settings[TAU]:
            refit(state, history_at(dim), state[THETA : THETA + dim], settings[RIDGE], link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up, then all on the most optimistic arm."""
        dim = arms.shape[1]
        if state[LEARNED] < settings[TAU]:
            out[:] = 1.0 / arms.shape[0]
        else:
            point_mass(
                out, best_with_bonus(arms, state[THETA : THETA + dim], factor_of(state, dim), settings[EXPLORATION])
            )
        return True
