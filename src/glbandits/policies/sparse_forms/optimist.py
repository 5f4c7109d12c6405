"""Optimist on sparse rows, with a diagonal posterior of the features that were learned."""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.maths.feature_table import entries_of, has_room
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index, uniform
from glbandits.maths.upper_envelope import uniform_probabilities
from glbandits.policies.algorithms.optimist import (
    LARGEST_BONUS,
    LEAST_BONUS,
    Optimist,
    argmax_with_bonus,
    bonus,
    information,
    noise_scale,
)
from glbandits.policies.contract import Coefficients, Outliers, Policy
from glbandits.policies.shared.posterior_state import COUNT, INTERCEPT, NEXT, OUTLIERS, OUTLYING_REWARDS
from glbandits.policies.shared.sparse.posterior import (
    SEEN,
    TABLE,
    VOTES,
    count_features,
    initial_state,
    is_valid_posterior,
    learn_sparse_reward,
    means,
    sparse_score_moments,
)
from glbandits.policies.shared.sparse.prior import replace_sparse_prior


class SparseOptimist(Optimist, sparse=True):
    """The sparse form of `Optimist(covariance="diagonal")`. `half_life="auto"` has no sparse form."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.half_life == "auto":
            raise InvalidInput(
                'half_life="auto" has no sparse form; set it to a number of rewards, or to None to forget nothing.'
            )

    def implementation(self, dim: int) -> type[Policy]:
        return SparseOptimist

    def init(self, dim: int) -> Floats:
        return initial_state(self.intercept_precision(dim))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        return is_valid_posterior(state, dim)

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        entries, intercept = entries_of(state, TABLE), float(state[INTERCEPT])
        return Coefficients(means(entries, intercept), intercept, entries[:, 0].astype(np.int64))

    def outliers(self, state: Floats, dim: int) -> Outliers:
        if state[OUTLIERS] == 0.0:
            return Outliers()  # at once, because a table may have a million rows
        entries, rewards = entries_of(state, TABLE), int(state[OUTLYING_REWARDS])
        features = {int(row[0]): math.ceil(row[VOTES]) for row in entries[entries[:, VOTES] > 0.0]}
        return Outliers(rewards, int(state[OUTLIERS]) - rewards, features)

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        return has_room(state, TABLE, features, max_size)

    @staticmethod
    def choose(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, rng: Generator, link: LinkFunctions
    ) -> int:
        """Choose a random arm before the first reward, then the arm with the largest score for a random Z."""
        K = indptr.shape[0] - 1
        if state[COUNT] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        levels, variances = np.empty(K), np.empty(K)
        sparse_score_moments(state, indptr, indices, values, levels, variances)
        scale = (LEAST_BONUS + (LARGEST_BONUS - LEAST_BONUS) * uniform(rng)) * noise_scale(state, settings.noise)
        return argmax_with_bonus(levels, variances, information(state, state[SEEN]), scale)

    @staticmethod
    def learn(
        state: Floats, settings: Any, indices: Ints, values: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Replace the prior if it is due, then update the posterior by one reward."""
        rows, limited = np.empty(indices.shape[0], dtype=np.int64), np.empty(indices.shape[0])
        state = count_features(state, indices, values, rows, limited)
        if state[COUNT] >= state[NEXT]:
            replace_sparse_prior(state, settings.memory, settings.noise, settings.intercept_precision)
        learn_sparse_reward(state, rows, limited, reward, settings.noise, link)
        return state

    @staticmethod
    def probabilities(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, link: LinkFunctions, out: Floats
    ) -> bool:
        """Write the probability that the line of each arm is the highest at a random Z, combined with the floor."""
        K = indptr.shape[0] - 1
        floor = 1.0 if state[COUNT] == 0.0 else settings.floor
        levels, slopes = np.empty(K), np.empty(K)
        sparse_score_moments(state, indptr, indices, values, levels, slopes)
        amount, sigma = information(state, state[SEEN]), noise_scale(state, settings.noise)
        for a in range(K):
            slopes[a] = bonus(slopes[a], amount)
        uniform_probabilities(levels, slopes, LEAST_BONUS * sigma, LARGEST_BONUS * sigma, out)
        for a in range(K):
            out[a] = floor / K + (1.0 - floor) * out[a]
        return True
