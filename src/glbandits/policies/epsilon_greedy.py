"""Epsilon-greedy on the maximum likelihood estimate (Auer et al., 2002; Sutton and Barto, 1998)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.errors import number, whole
from glbandits.maths.history import first_history, history_fits, refit, remember
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.randomness import any_index, uniform
from glbandits.maths.vectors import best_arm
from glbandits.policies.policy import settle
from glbandits.records import Floats, Generator

LEARNED, THETA = 0, 1
"""The state: rewards learned, theta_hat, and the history."""


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy:
    """With probability min(1, a / sqrt t) any arm, else the one that the estimate from all rewards likes best.

    t is the number of rewards learned, plus one. O(t d^2) to learn, from a warm start; O(K d) to choose. The state
    keeps every distinct x, so with a fixed set of arms neither grows with t.

    Args:
        link: mu, any link.
        exploration: a. 0 is pure greed.
        warm_up: pulls at random before the first estimate; the published code's 2.
        ridge: penalty of the fit; 0 is the paper's.

    >>> from glbandits import Bandit, EpsilonGreedy
    >>> bandit = Bandit(EpsilonGreedy(exploration=0.4), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.probabilities([[0.2], [0.5]])
    array([0.1, 0.9])
    """

    name: ClassVar[str] = "epsilon-greedy"
    keeps_history: ClassVar[bool] = True

    link: str | Link = "logistic"
    exploration: float = 0.1
    warm_up: int = 2
    ridge: float = 0.0

    def __post_init__(self) -> None:
        find_link(self.link)
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            warm_up=whole("warm_up", self.warm_up, at_least=0),
            ridge=number("ridge", self.ridge, at_least=0),
        )

    def init(self, dim: int) -> Floats:
        """Nothing learned."""
        return np.concatenate([np.zeros(1 + dim), first_history(dim)])

    def numbers(self, dim: int) -> Floats:
        """The exploration, the warm-up and the ridge."""
        return np.array([self.exploration, self.warm_up, self.ridge])

    def fits(self, state: Floats, dim: int) -> bool:
        """A count, a vector, and a history behind them."""
        if state.ndim != 1 or not np.isfinite(state).all():
            return False
        return history_fits(state, THETA + dim, dim) and bool(state[LEARNED] >= 0.0)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm, or the best."""
        if uniform(rng) < epsilon(state, settings):
            return any_index(rng, arms.shape[0])
        return best_arm(arms, state[THETA : THETA + arms.shape[1]])

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, and fit again."""
        dim, warm_up, ridge = x.shape[0], settings[1], settings[2]
        state = remember(state, THETA + dim, x, reward)
        state[LEARNED] += 1.0
        if state[LEARNED] >= warm_up:
            refit(state, THETA + dim, state[THETA : THETA + dim], ridge, link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Epsilon shared by all, the rest on the best."""
        out[:] = epsilon(state, settings) / arms.shape[0]
        out[best_arm(arms, state[THETA : THETA + arms.shape[1]])] += 1.0 - epsilon(state, settings)
        return True


@jittable
def epsilon(state: Floats, settings: Floats) -> float:
    """The chance of a random arm now."""
    if state[LEARNED] < settings[1]:
        return 1.0
    return float(min(1.0, settings[0] / math.sqrt(state[LEARNED] + 1.0)))
