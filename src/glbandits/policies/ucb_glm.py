"""UCB-GLM: maximum likelihood each round, and an optimistic bonus (Li, Lu and Zhou, 2017)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.errors import number, whole
from glbandits.maths.cholesky import update
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.history import first_history, history_fits, refit, remember
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.randomness import any_index
from glbandits.maths.vectors import point_mass
from glbandits.policies.policy import settle
from glbandits.policies.warm_up import warm_up_length
from glbandits.records import Floats, Generator

LEARNED, THETA = 0, 1
"""The state: rewards learned, theta_hat, the factor of V, and the history."""


@dataclass(frozen=True, kw_only=True)
class UcbGlm:
    """Pull the largest x'theta_hat + alpha ||x|| in V^-1, where theta_hat is the estimate from all rewards so far.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood on all rewards; pull argmax x'theta_hat + alpha ||x|| in V^-1, on the
       linear scale; V += xx', not weighted by the link's slope.

    O(t d^2) to learn, from a warm start; O(K d^2) to choose. The state keeps every distinct x, so with a fixed set of
    arms neither grows with t.

    Args:
        link: mu, any link.
        exploration: alpha.
        warm_up_factor: C in tau = floor(C max(log T, d)); without a horizon tau = floor(C d).
        warm_up: tau itself, instead of warm_up_factor.
        horizon: T, if it is known.
        ridge: penalty of the fit; 0 is the paper's.
        prior_precision: V before the first reward, times I; the published code's is 1e-6.

    >>> from glbandits import Bandit, UcbGlm
    >>> bandit = Bandit(UcbGlm(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ucb-glm"
    keeps_history: ClassVar[bool] = True

    link: str | Link = "logistic"
    exploration: float = 0.1
    warm_up_factor: float = 1.0
    warm_up: int | None = None
    horizon: int | None = None
    ridge: float = 0.0
    prior_precision: float = 1e-6

    def __post_init__(self) -> None:
        find_link(self.link)
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            warm_up_factor=number("warm_up_factor", self.warm_up_factor, above=0, at_most=1e9),
            ridge=number("ridge", self.ridge, at_least=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
        )
        if self.warm_up is not None:
            settle(self, warm_up=whole("warm_up", self.warm_up, at_least=0))
        if self.horizon is not None:
            settle(self, horizon=whole("horizon", self.horizon, at_least=1))

    def tau(self, dim: int) -> int:
        """The number of random pulls."""
        return self.warm_up if self.warm_up is not None else warm_up_length(self.warm_up_factor, self.horizon, dim)

    def init(self, dim: int) -> Floats:
        """Nothing learned, V = prior_precision times I."""
        factor = math.sqrt(self.prior_precision) * np.eye(dim)
        return np.concatenate([np.zeros(1 + dim), factor.ravel(), first_history(dim)])

    def numbers(self, dim: int) -> Floats:
        """Alpha, tau and the ridge."""
        return np.array([self.exploration, self.tau(dim), self.ridge])

    def fits(self, state: Floats, dim: int) -> bool:
        """Numbers, a vector, a factor, and a history behind them."""
        if state.ndim != 1 or not np.isfinite(state).all() or not history_fits(state, history_at(dim), dim):
            return False
        return bool(state[LEARNED] >= 0.0 and (np.diagonal(factor_of(state, dim)) > 0.0).all())

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then the most optimistic one."""
        dim, tau = arms.shape[1], settings[1]
        if state[LEARNED] < tau:
            return any_index(rng, arms.shape[0])
        return best_with_bonus(arms, state[THETA : THETA + dim], factor_of(state, dim), settings[0])

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, add to V, and fit again."""
        dim, tau, ridge = x.shape[0], settings[1], settings[2]
        state = remember(state, history_at(dim), x, reward)
        update(factor_of(state, dim), 1.0, x)
        state[LEARNED] += 1.0
        if state[LEARNED] >= tau:
            refit(state, history_at(dim), state[THETA : THETA + dim], ridge, link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up, then all on the most optimistic arm."""
        dim = arms.shape[1]
        if state[LEARNED] < settings[1]:
            out[:] = 1.0 / arms.shape[0]
        else:
            point_mass(out, best_with_bonus(arms, state[THETA : THETA + dim], factor_of(state, dim), settings[0]))
        return True


@jittable
def factor_of(state: Floats, dim: int) -> Floats:
    """The factor of V."""
    return state[THETA + dim : THETA + dim + dim * dim].reshape(dim, dim)


@jittable
def history_at(dim: int) -> int:
    """Where the history begins."""
    return THETA + dim + dim * dim
