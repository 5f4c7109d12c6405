"""Laplace-TS on sparse rows: each coordinate of the draw is computed when an arm needs it."""

import math
from typing import Any

import numpy as np

from glbandits.maths.feature_table import find, has_room, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import COUNTER, KEY, STREAM, noise_at, skip_normals
from glbandits.policies.laplace_ts import LaplaceTs
from glbandits.policy import Coefficients, derived
from glbandits.policy_bases.sparse.diagonal import (
    MEAN,
    PRECISION,
    TABLE,
    diagonal_coefficients,
    initial_state,
    is_valid_diagonal,
    learn_diagonal,
)
from glbandits.records import Bools, Floats, Generator, Ints


class SparseLaplaceTs(LaplaceTs, sparse=True):
    """`LaplaceTs`, with the same draws: a coordinate is a function of its index and the counter of the generator."""

    @derived
    def dimension(self, dim: int) -> int:
        """The number of features, by which a decision advances the generator."""
        return dim

    def init(self, dim: int) -> Floats:
        """A state that has learned nothing."""
        return initial_state()

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """Whether this can be a state of this dimension."""
        return is_valid_diagonal(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        """The means of the features that were learned."""
        return diagonal_coefficients(state)

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        """Which of these features it can learn in a state of so many numbers."""
        return has_room(state, TABLE, features, max_size)

    @staticmethod
    def choose(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, rng: Generator, link: LinkFunctions
    ) -> int:
        """The best arm under a draw of the coordinates of the arms."""
        table, best, best_score = table_at(state, TABLE), 0, -np.inf
        key, stream, counter = rng[KEY], rng[STREAM], rng[COUNTER]
        unseen = math.sqrt(settings.prior_precision)
        for a in range(indptr.shape[0] - 1):
            score = 0.0
            for k in range(indptr[a], indptr[a + 1]):
                row = find(state, table, indices[k])
                noise = noise_at(indices[k], settings.exploration, key, stream, counter)
                if row >= 0:
                    score += values[k] * (state[row + MEAN] + noise / math.sqrt(state[row + PRECISION]))
                else:
                    score += values[k] * (noise / unseen)
            if score > best_score:
                best, best_score = a, score
        skip_normals(int(settings.dimension), rng)
        return best

    @staticmethod
    def learn(
        state: Floats, settings: Any, indices: Ints, values: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Take the exact step of one observation, feature by feature."""
        return learn_diagonal(state, indices, values, reward, settings.prior_precision, link)
