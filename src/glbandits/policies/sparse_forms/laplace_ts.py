"""Laplace-TS on sparse rows. A draw is computed only for the features of the arms."""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.maths.feature_table import find, has_room, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import COUNTER, KEY, STREAM, noise_at, skip_normals
from glbandits.policies.algorithms.laplace_ts import LaplaceTs
from glbandits.policies.contract import Coefficients, derived
from glbandits.policies.shared.sparse.diagonal import (
    MEAN,
    PRECISION,
    TABLE,
    diagonal_coefficients,
    initial_state,
    is_valid_diagonal,
    learn_diagonal,
)


class SparseLaplaceTs(LaplaceTs, sparse=True):
    """The sparse form of `LaplaceTs`. It makes the same draws.

    A coordinate of a draw is a function of its index and of the generator, so it does not depend on other coordinates.
    """

    @derived
    def dimension(self, dim: int) -> int:
        """The number of normal variates by which a decision advances the generator."""
        return dim

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
        """Return the best arm under a draw of w."""
        table, best, best_score = table_at(state, TABLE), 0, -np.inf
        key, stream, counter = rng[KEY], rng[STREAM], rng[COUNTER]
        prior_root = math.sqrt(settings.prior_precision)
        for a in range(indptr.shape[0] - 1):
            score = 0.0
            for k in range(indptr[a], indptr[a + 1]):
                row = find(state, table, indices[k])
                noise = noise_at(indices[k], settings.exploration, key, stream, counter)
                if row >= 0:
                    score += values[k] * (state[row + MEAN] + noise / math.sqrt(state[row + PRECISION]))
                else:
                    score += values[k] * (noise / prior_root)
            if score > best_score:
                best, best_score = a, score
        skip_normals(int(settings.dimension), rng)
        return best

    @staticmethod
    def learn(
        state: Floats, settings: Any, indices: Ints, values: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Update the posterior by one reward."""
        return learn_diagonal(state, indices, values, reward, settings.prior_precision, link)
