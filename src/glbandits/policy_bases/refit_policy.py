"""What greedy and perturbed policies share: all rewards, and the best arm under one theta fitted to them after each."""

from typing import Any, ClassVar

from glbandits.maths.links import LinkFunctions
from glbandits.maths.observation_history import refit, remember
from glbandits.maths.vectors import best_arm
from glbandits.numba_support import jittable
from glbandits.policy import AnyLink, NonNegative, NonNegativeInt, Policy, StateLayout
from glbandits.records import Floats, Generator

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
theta_of = LAYOUT.vector("theta")
history_at = LAYOUT.history()


class RefitPolicy(Policy):
    """The settings, the state and the choice of a policy that plays the best arm under one theta.

    O(K d) to choose. The state keeps every distinct x, so with a fixed set of arms it does not grow with t. Where
    theta is random, it is drawn once for each reward: decisions between two rewards share it.

    Args:
        link: mu, any link.
        warm_up: pulls at random before the first fit.
        ridge: penalty of the fit, the precision of a normal prior.
    """

    layout: ClassVar[StateLayout] = LAYOUT

    link: AnyLink = "logistic"
    warm_up: NonNegativeInt = 1
    ridge: NonNegative = 1.0

    @staticmethod
    def is_warming_up(state: Floats, settings: Any) -> bool:
        """Whether fewer than `warm_up` rewards are known."""
        return bool(state[LEARNED] < settings.warm_up)

    @staticmethod
    def decide(state: Floats, settings: Any, arms: Floats, link: LinkFunctions) -> int:
        """The best arm under theta."""
        return best_arm(arms, theta_of(state, arms.shape[1]))

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, and fit again: for policies that do not perturb theta."""
        state, dim = add_observation(state, x, reward), x.shape[0]
        if state[LEARNED] >= settings.warm_up:
            refit(state, history_at(dim), theta_of(state, dim), settings.ridge, link)
        return state


@jittable
def add_observation(state: Floats, x: Floats, reward: float) -> Floats:
    """Remember a reward and count it. Returns the state, which may be a larger copy."""
    state = remember(state, history_at(x.shape[0]), x, reward)
    state[LEARNED] += 1.0
    return state
