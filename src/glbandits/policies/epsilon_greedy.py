"""Epsilon-greedy on the maximum likelihood estimate (Auer et al., 2002; Sutton and Barto, 1998)."""

import math
from typing import Any, ClassVar

from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.vectors import best_arm
from glbandits.numba_support import jittable
from glbandits.policy import Grid, NonNegative, NonNegativeInt, PolicyInfo
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.policy_bases.refit_policy import LEARNED, FittedPolicy, theta_of
from glbandits.records import Floats, Generator


class EpsilonGreedy(FittedPolicy):
    """With probability min(1, a / sqrt t) any arm, else the best arm under the estimate from all rewards.

    t is the number of rewards learned, plus one. O(t d) to learn, from a warm start; O(K d) to choose. The state
    keeps every distinct x, so with a fixed set of arms neither grows with t.

    Args:
        link: mu, any link.
        exploration: a. 0 is greedy play.
        warm_up: pulls at random before the first estimate; the published code's 2.
        ridge: penalty of the fit; 0 is the paper's.

    >>> from glbandits import Bandit, EpsilonGreedy
    >>> bandit = Bandit(EpsilonGreedy(exploration=0.4), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.probabilities([[0.2], [0.5]])
    array([0.1, 0.9])
    """

    name: ClassVar[str] = "epsilon-greedy"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d", memory="t d",
        guarantee="none at this rate of exploration", use_when="a baseline that everybody knows",
    )  # fmt: skip

    exploration: NonNegative = 0.3
    warm_up: NonNegativeInt = 2
    ridge: NonNegative = 0.0

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm, or the best."""
        if uniform(rng) < epsilon(state, settings):
            return any_index(rng, arms.shape[0])
        return best_arm(arms, theta_of(state, arms.shape[1]))

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Epsilon shared by all arms, the rest on the best."""
        for a in range(arms.shape[0]):
            out[a] = epsilon(state, settings) / arms.shape[0]
        out[best_arm(arms, theta_of(state, arms.shape[1]))] += 1.0 - epsilon(state, settings)
        return True


@jittable
def epsilon(state: Floats, settings: Any) -> float:
    """The probability of a random arm now."""
    if state[LEARNED] < settings.warm_up:
        return 1.0
    return float(min(1.0, settings.exploration / math.sqrt(state[LEARNED] + 1.0)))
