"""SGD-TS on sparse rows. Means, projections and draws are computed only for features that are needed."""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.maths.feature_table import entries_of, has_room, is_valid_table, largest_count
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import skip_normals
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.algorithms.sgd_ts import BLOCK, POSITION, SgdTs
from glbandits.policies.contract import Coefficients, derived
from glbandits.policies.shared.sgd_ts_theory import variance
from glbandits.policies.sparse_forms.first_block import append_row, are_valid_rows, fit_first_block
from glbandits.policies.sparse_forms.lazy_sgd import (
    END,
    FILLED,
    HAT,
    LAYOUT,
    ROW,
    SCALE,
    SCALE_SUM,
    TABLE,
    TOUCHED,
    C,
    U,
    add_gradient,
    is_valid_generator,
    is_valid_list,
    scores_under_draw,
    store_generator,
    stored_generator,
    take_step,
)

LARGEST_FIRST_BLOCK = 5000
"""The largest length tau of the first block, because its fit takes O(tau^3)."""


class SparseSgdTs(SgdTs, sparse=True):
    """The sparse form of `SgdTs`. It makes the same draws. Estimates are equal up to rounding errors."""

    @derived
    def dimension(self, dim: int) -> int:
        """The number of normal variates by which a draw advances the generator."""
        return dim

    def init(self, dim: int) -> Floats:
        """Return the initial state. Raises InvalidInput if the first block is too long to fit."""
        tau = self.tau(dim)
        if tau > LARGEST_FIRST_BLOCK:
            raise InvalidInput(
                f"the first block would have {tau:,} rewards for dim={dim}, but a sparse Bandit can fit at most "
                f"{LARGEST_FIRST_BLOCK:,}; set block_length, such as SgdTs(block_length=100)."
            )
        return LAYOUT.allocate(0, scale=1.0, touched=END)

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        if state.ndim != 1 or state.size < TABLE or not LAYOUT.is_valid(state[:TABLE], 0):
            return False
        if not np.isfinite(state).all() or not state[POSITION] < self.tau(dim) or not is_valid_generator(state):
            return False
        if state[BLOCK] == 0.0:
            is_first = state[TOUCHED] == END and state[SCALE] == 1.0
            return is_first and are_valid_rows(state[TABLE:], int(state[POSITION]), int(state[FILLED]), dim)
        if not is_valid_table(state, TABLE, ROW, dim) or not state[SCALE] > 0.0:
            return False
        return is_valid_list(state, entries_of(state, TABLE))

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        """Return theta_bar of the features that were learned."""
        if state[BLOCK] == 0.0:
            return Coefficients(np.zeros(0), indices=np.zeros(0, dtype=np.int64))
        entries = entries_of(state, TABLE)
        theta = entries[:, HAT] + (state[SCALE_SUM] * entries[:, U] - entries[:, C]) / state[BLOCK]
        return Coefficients(theta, indices=entries[:, 0].astype(np.int64))

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        if state[BLOCK] > 0.0:
            return has_room(state, TABLE, features, max_size)
        most_entries = state[FILLED] / 2.0 + len(features)  # if no feature of the first block occurs twice
        return np.full(len(features), most_entries <= largest_count(max_size - TABLE, ROW))

    @staticmethod
    def scores(
        state: Floats, settings: Any, arms: SparseRows, draw: int, rng: Generator, link: LinkFunctions, out: Floats
    ) -> None:
        """Line 14: write x'theta_TS of each arm."""
        dim = int(settings.dimension)
        deviation = math.sqrt(variance(settings, state[BLOCK], dim))
        if settings.draws_per_block > 0.0:
            scores_under_draw(state, arms, deviation, stored_generator(state, draw, dim), out)
        else:  # draw="decision"
            scores_under_draw(state, arms, deviation, rng, out)
            skip_normals(dim, rng)

    @staticmethod
    def learn(state: Floats, settings: Any, x: SparseRow, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Learn one reward, and complete the block if this is its last reward."""
        in_first_block = state[BLOCK] == 0.0
        state = append_row(state, x, reward) if in_first_block else add_gradient(state, x, reward, link)
        state[POSITION] += 1.0
        if state[POSITION] < settings.tau:
            return state
        if in_first_block:
            state = fit_first_block(state, settings.ridge, int(settings.dimension), link)
        state[BLOCK] += 1.0  # line 7
        take_step(state, settings.eta / state[BLOCK], settings.radius)  # lines 8 to 10
        store_generator(state, rng)  # line 12
        for _ in range(int(settings.draws_per_block)):
            skip_normals(int(settings.dimension), rng)
        state[POSITION] = 0.0
        return state
