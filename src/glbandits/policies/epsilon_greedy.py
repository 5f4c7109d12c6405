"""Epsilon-greedy on the maximum likelihood estimate (Auer et al., 2002; Sutton and Barto, 1998)."""

import math
from typing import Any, ClassVar, Literal

from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.vectors import best_arm
from glbandits.numba_support import jittable
from glbandits.policy import Coefficients, Grid, NonNegative, NonNegativeInt, Policy, PolicyInfo, StateLayout, derived
from glbandits.policy_bases.diagonal_step import take_diagonal_step
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.policy_bases.refit_policy import FITTED, LEARNED, FittedPolicy, theta_of
from glbandits.records import Floats, Generator

ONLINE = StateLayout()
"""The state with `fit="online"`. It begins as the other does, so both choose by the same code."""
ONLINE.count("learned")
online_theta_of, precisions_of = ONLINE.vector("theta"), ONLINE.vector("precisions", positive=True)


class EpsilonGreedy(FittedPolicy):
    """With probability min(1, a / sqrt t) any arm, else the best arm under the estimate from all rewards.

    t is the number of rewards learned, plus one. O(t d) to learn, from a warm start; O(K d) to choose. The state
    keeps every distinct x, so with a fixed set of arms neither grows with t.

    Args:
        link: mu, any link.
        exploration: a. 0 is greedy play.
        warm_up: pulls at random before the first estimate; the published code's 2.
        ridge: penalty of the fit; 0 is the paper's.
        fit: "exact" fits all rewards again after each one. "online" moves each coefficient by one exact step for a
            reward, as `LaplaceTs` does, from a prior of precision `ridge` (1 if that is 0): O(d) to learn, and a state
            of 2d numbers. A sparse Bandit needs it.

    >>> from glbandits import Bandit, EpsilonGreedy
    >>> bandit = Bandit(EpsilonGreedy(exploration=0.4), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.probabilities([[0.2], [0.5]])
    array([0.1, 0.9])
    """

    name: ClassVar[str] = "epsilon-greedy"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d (online: d)", memory="t d (online: d)",
        guarantee="none at this rate of exploration", use_when="a baseline that everybody knows",
        sparse='K n; n; f (needs fit="online")',
    )  # fmt: skip

    exploration: NonNegative = 0.3
    warm_up: NonNegativeInt = 2
    ridge: NonNegative = 0.0
    fit: Literal["exact", "online"] = "exact"

    @derived
    def first_precision(self, dim: int) -> float:
        """The prior precision of a coefficient, if it is learned online."""
        return self.ridge or 1.0

    @property
    def keeps_history(self) -> bool:
        """Whether the state holds past observations."""
        return self.fit == "exact"

    def implementation(self, dim: int) -> type[Policy]:
        """The class whose functions are compiled."""
        return super().implementation(dim) if self.fit == "exact" else OnlineEpsilonGreedy

    def init(self, dim: int) -> Floats:
        """Nothing learned."""
        if self.fit == "exact":
            return FITTED.allocate(dim)
        return ONLINE.allocate(dim, precisions=self.first_precision(dim))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """Whether this can be a state of this dimension."""
        return (FITTED if self.fit == "exact" else ONLINE).is_valid(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients | None:
        """The estimate."""
        return Coefficients(theta_of(state, dim).copy())

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


class OnlineEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy that learns each reward once."""

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take the exact step of one observation, coordinate by coordinate."""
        dim = x.shape[0]
        state[LEARNED] += 1.0
        take_diagonal_step(online_theta_of(state, dim), precisions_of(state, dim), x, reward, link)
        return state


@jittable
def epsilon(state: Floats, settings: Any) -> float:
    """The probability of a random arm now."""
    if state[LEARNED] < settings.warm_up:
        return 1.0
    return float(min(1.0, settings.exploration / math.sqrt(state[LEARNED] + 1.0)))
