"""Epsilon-greedy with `fit="online"` on sparse rows."""

from typing import Any

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.maths.feature_table import has_room
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index, uniform
from glbandits.policies.algorithms.epsilon_greedy import EpsilonGreedy, epsilon
from glbandits.policies.contract import Coefficients, Policy
from glbandits.policies.shared.sparse.diagonal import (
    TABLE,
    best_by_mean,
    diagonal_coefficients,
    initial_state,
    is_valid_diagonal,
    learn_diagonal,
)


class SparseEpsilonGreedy(EpsilonGreedy, sparse=True):
    """The sparse form of `EpsilonGreedy(fit="online")`. `fit="exact"` has no sparse form."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit == "exact":
            raise InvalidInput('EpsilonGreedy(fit="exact") has no sparse form; use fit="online".')

    def implementation(self, dim: int) -> type[Policy]:
        return SparseEpsilonGreedy

    def init(self, dim: int) -> Floats:
        return initial_state()

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        return is_valid_diagonal(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        return diagonal_coefficients(state)

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        return has_room(state, TABLE, features, max_size)

    @staticmethod
    def choose(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, rng: Generator, link: LinkFunctions
    ) -> int:
        """Choose a random arm with probability epsilon, else the best arm."""
        if uniform(rng) < epsilon(state, settings):
            return any_index(rng, indptr.shape[0] - 1)
        return best_by_mean(state, indptr, indices, values)

    @staticmethod
    def learn(
        state: Floats, settings: Any, indices: Ints, values: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Update the diagonal posterior by one reward."""
        return learn_diagonal(state, indices, values, reward, settings.first_precision, link)

    @staticmethod
    def probabilities(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, link: LinkFunctions, out: Floats
    ) -> bool:
        """Write epsilon/K for every arm, plus 1 - epsilon for the best arm."""
        for a in range(out.shape[0]):
            out[a] = epsilon(state, settings) / out.shape[0]
        out[best_by_mean(state, indptr, indices, values)] += 1.0 - epsilon(state, settings)
        return True
