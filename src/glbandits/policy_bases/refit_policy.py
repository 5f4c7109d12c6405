"""What greedy and perturbed policies share: all rewards, one theta fitted to them after each, the arm it likes best."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.errors import number, whole
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.observation_history import first_history, history_fits, refit, remember
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import best_arm, point_mass
from glbandits.numba_support import jittable
from glbandits.records import Floats, Generator, set_validated

LEARNED, THETA = 0, 1
"""The state: rewards learned, theta, and the history."""
WARM_UP, RIDGE, MORE = 0, 1, 2
"""The settings in compiled code; from MORE on, the policy's own."""


@dataclass(frozen=True, kw_only=True)
class RefitEstimator:
    """The settings, the state and the choice of a policy that plays the best arm under one theta.

    O(K d) to choose. The state keeps every distinct x, so with a fixed set of arms it does not grow with t. Where
    theta is random, it is drawn once for each reward: decisions between two rewards share it.

    Args:
        link: mu, any link.
        warm_up: pulls at random before the first fit.
        ridge: penalty of the fit, the precision of a normal prior.
    """

    keeps_history: ClassVar[bool] = True

    link: str | Link = "logistic"
    warm_up: int = 1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        find_link(self.link)
        set_validated(
            self,
            warm_up=whole("warm_up", self.warm_up, at_least=0),
            ridge=number("ridge", self.ridge, at_least=0),
        )

    def init(self, dim: int) -> Floats:
        """Nothing learned."""
        return np.concatenate([np.zeros(1 + dim), first_history(dim)])

    def numbers(self, dim: int) -> Floats:
        """The warm-up and the ridge."""
        return np.array([self.warm_up, self.ridge])

    def fits(self, state: Floats, dim: int) -> bool:
        """A count, a vector, and a history behind them."""
        if state.ndim != 1 or not np.isfinite(state).all():
            return False
        return history_fits(state, history_at(dim), dim) and bool(state[LEARNED] >= 0.0)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then the best under theta."""
        if state[LEARNED] < settings[WARM_UP]:
            return any_index(rng, arms.shape[0])
        return best_arm(arms, theta_of(state, arms.shape[1]))

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, and fit again: what policies do that do not perturb theta."""
        state, dim = take_in(state, x, reward), x.shape[0]
        if state[LEARNED] >= settings[WARM_UP]:
            refit(state, history_at(dim), theta_of(state, dim), settings[RIDGE], link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up, then all on the best under theta."""
        if state[LEARNED] < settings[WARM_UP]:
            out[:] = 1.0 / arms.shape[0]
        else:
            point_mass(out, best_arm(arms, theta_of(state, arms.shape[1])))
        return True


@jittable
def theta_of(state: Floats, dim: int) -> Floats:
    """Theta: a slice of the state."""
    return state[THETA : THETA + dim]


@jittable
def history_at(dim: int) -> int:
    """Where the history begins."""
    return THETA + dim


@jittable
def take_in(state: Floats, x: Floats, reward: float) -> Floats:
    """Remember a reward and count it."""
    state = remember(state, history_at(x.shape[0]), x, reward)
    state[LEARNED] += 1.0
    return state
