"""Optimist on sparse rows, with a diagonal posterior of the features that were learned."""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.maths.feature_table import entries_of, has_room
from glbandits.maths.links import LinkFunctions
from glbandits.maths.sparse_rows import SparseRow
from glbandits.policies.algorithms.optimist import Optimist
from glbandits.policies.contract import Coefficients, Outliers, Policy
from glbandits.policies.shared.posterior_state import COUNT, INTERCEPT, NEXT, OUTLIERS, OUTLYING_REWARDS
from glbandits.policies.shared.sparse.posterior import (
    TABLE,
    VOTES,
    count_sparse_features,
    initial_state,
    is_valid_posterior,
    learn_sparse_reward,
    means,
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
    def learn(state: Floats, settings: Any, x: SparseRow, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Replace the prior if it is due, then update the posterior by one reward."""
        rows, values = np.empty(x.indices.shape[0], dtype=np.int64), np.empty(x.indices.shape[0])
        state = count_sparse_features(state, x, rows, values)
        if state[COUNT] >= state[NEXT]:
            replace_sparse_prior(state, settings.memory, settings.noise, settings.intercept_precision)
        learn_sparse_reward(state, rows, values, reward, settings.noise, link)
        return state
