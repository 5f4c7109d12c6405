"""Epsilon-greedy with the maximum likelihood estimate.

Auer, Cesa-Bianchi and Fischer (2002); Sutton and Barto (1998).
"""

import math
from typing import Any, ClassVar, Literal

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import jittable
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import uniform
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.contract import (
    Coefficients,
    Grid,
    NonNegative,
    NonNegativeInt,
    Policy,
    PolicyInfo,
    StateLayout,
)
from glbandits.policies.shared.diagonal_step import take_diagonal_step
from glbandits.policies.shared.refit_policy import FITTED, LEARNED, FittedPolicy, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS
from glbandits.policies.shared.sparse.diagonal import SparseDiagonal, learn_diagonal, scores_by_mean

ONLINE = StateLayout()
"""The state for `fit="online"`. Count and theta have the same offsets as in FITTED, so both choose by the same code."""
ONLINE.count("learned")
online_theta_of, precisions_of = ONLINE.vector("theta"), ONLINE.vector("precisions", positive=True)


class EpsilonGreedy(FittedPolicy):
    """Pull a random arm with probability min(1, a / sqrt t), else the best arm so far.

    The best arm is the one with the largest x'theta_hat, where theta_hat is the maximum likelihood estimate from all
    rewards. t is the number of rewards learned, plus one. O(K d) to choose. O(t d) to learn, because each fit starts at
    the last estimate. The state stores every distinct x once, so with a fixed set of arms neither time nor memory grows
    with t.

    Args:
        link: mu, any link.
        exploration: a. 0 is the greedy policy.
        warm_up: the number of random pulls before the first estimate; 2 in published code.
        ridge: the ridge penalty of the fit; 0 in the SGD-TS paper.
        fit: "exact" refits theta to all rewards after each one. "online" updates a diagonal Gaussian posterior once per
            reward, as `LaplaceTs` does, from a prior of precision `ridge` (1 if that is 0). It takes O(d) to learn, and
            the state has 2d numbers. A sparse Bandit requires "online".

    >>> from glbandits import Bandit, EpsilonGreedy
    >>> bandit = Bandit(EpsilonGreedy(exploration=0.4), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.probabilities([[0.2], [0.5]])
    array([0.1, 0.9])
    """

    name: ClassVar[str] = "epsilon-greedy"
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("warm_up", "ridge", "exploration")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d (online: d)", memory="t d (online: d)", page="baselines",
        guarantee="none at this rate of exploration", use_when="a well-known baseline is wanted",
        sparse='K n; n; f (needs fit="online")',
    )  # fmt: skip

    exploration: NonNegative = 0.3
    warm_up: NonNegativeInt = 2
    ridge: NonNegative = 0.0
    fit: Literal["exact", "online"] = "exact"

    def first_precision(self, dim: int) -> float:
        """The prior precision of a coefficient, for `fit="online"`."""
        return self.ridge or 1.0

    @property
    def keeps_history(self) -> bool:
        return self.fit == "exact"

    def implementation(self, dim: int) -> type[Policy]:
        return super().implementation(dim) if self.fit == "exact" else OnlineEpsilonGreedy

    def init(self, dim: int) -> Floats:
        if self.fit == "exact":
            return FITTED.allocate(dim)
        return ONLINE.allocate(dim, precisions=self.first_precision(dim))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        return (FITTED if self.fit == "exact" else ONLINE).is_valid(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients | None:
        return Coefficients(theta_of(state, dim).copy())

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        """The current epsilon."""
        return epsilon(state, settings)

    @staticmethod
    def explores(state: Floats, settings: Any, rng: Generator) -> bool:
        """Whether to pull a random arm. Draws a number in every round, as the published code does."""
        return bool(uniform(rng) < epsilon(state, settings))


class OnlineEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy with `fit="online"`."""

    compiled_settings: ClassVar[tuple[str, ...] | None] = ("warm_up", "exploration")

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Update the diagonal posterior by one reward."""
        dim = x.shape[0]
        state[LEARNED] += 1.0
        take_diagonal_step(online_theta_of(state, dim), precisions_of(state, dim), x, reward, link)
        return state


class SparseEpsilonGreedy(SparseDiagonal, EpsilonGreedy, sparse=True):
    """The sparse form of `EpsilonGreedy(fit="online")`. `fit="exact"` has no sparse form."""

    compiled_settings: ClassVar[tuple[str, ...] | None] = ("warm_up", "exploration", "first_precision")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit == "exact":
            raise InvalidInput('EpsilonGreedy(fit="exact") has no sparse form; use fit="online".')

    @staticmethod
    def index(state: Floats, settings: Any, arms: SparseRows, link: LinkFunctions, out: Floats) -> None:
        """Write the scores under the means."""
        scores_by_mean(state, arms, out)

    @staticmethod
    def learn(  # type: ignore[override]
        state: Floats, settings: Any, x: SparseRow, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Update the diagonal posterior by one reward."""
        return learn_diagonal(state, x, reward, settings.first_precision, link)


@jittable
def epsilon(state: Floats, settings: Any) -> float:
    """The current probability of pulling a random arm."""
    if state[LEARNED] < settings.warm_up:
        return 1.0
    return float(min(1.0, settings.exploration / math.sqrt(state[LEARNED] + 1.0)))
