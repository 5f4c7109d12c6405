"""Disjoint LinUCB on sparse rows. A hash table (`maths.feature_table`) has an entry for each block learned so far."""

import math
from typing import Any

import numpy as np

from glbandits.common.arrays import Bools, Floats, Generator, Ints
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import forward, rank_one_update, solve_for_variance
from glbandits.maths.feature_table import empty_table, entries_of, find, has_room, insert_all, is_valid_table, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import dot, point_mass, square_matrix
from glbandits.policies.algorithms.lin_ucb_disjoint import LinUcbDisjoint
from glbandits.policies.contract import Coefficients

TABLE = 0
"""The offset of the table: the state has no other parts.

A table row consists of the index of a block, the block's theta (c numbers) and its Cholesky factor (c x c).
"""


class SparseLinUcbDisjoint(LinUcbDisjoint, sparse=True):
    """The sparse form of `LinUcbDisjoint`."""

    def init(self, dim: int) -> Floats:
        """Return an empty table. Raises InvalidInput if dim is not a multiple of context_dim."""
        c = self.context_dim
        if dim % c:
            raise InvalidInput(
                f"the number of features must be a multiple of context_dim={c}, a block for each arm; got {dim}"
            )
        return empty_table(row_width(c))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        c = self.context_dim
        if dim % c or not is_valid_table(state, TABLE, row_width(c), dim // c):
            return False
        factors = entries_of(state, TABLE)[:, 1 + c :].reshape(-1, c, c)
        return bool((np.diagonal(factors, axis1=1, axis2=2) > 0.0).all())

    def coefficients(self, state: Floats, dim: int) -> Coefficients:
        c, entries = self.context_dim, entries_of(state, TABLE)
        indices = entries[:, :1].astype(np.int64) * c + np.arange(c)
        return Coefficients(entries[:, 1 : 1 + c].ravel(), indices=indices.ravel())

    def has_room(self, state: Floats, dim: int, features: Ints, max_size: int) -> Bools:
        return has_room(state, TABLE, features // self.context_dim, max_size)

    @staticmethod
    def choose(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, rng: Generator, link: LinkFunctions
    ) -> int:
        """Return the arm with the largest upper confidence bound."""
        return best_block_arm(state, settings, indptr, indices, values)

    @staticmethod
    def learn(
        state: Floats, settings: Any, indices: Ints, values: Floats, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Update theta and the factor of every block in which x has features."""
        c, count = int(settings.context_dim), block_count(indices, int(settings.context_dim))
        blocks, rows = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        x, direction = np.zeros((count, c)), np.zeros((count, c))
        k, b = 0, 0
        while k < indices.shape[0]:
            blocks[b] = indices[k] // c
            k = read_block(indices, values, k, indices.shape[0], c, x[b])
            b += 1
        state = insert_all(state, TABLE, blocks, rows, initial_block(c, math.sqrt(settings.prior_precision)))
        score, variance = 0.0, 0.0
        for b in range(count):
            for i in range(c):
                score += x[b, i] * state[rows[b] + 1 + i]
            variance += solve_for_variance(square_matrix(state, rows[b] + 1 + c, c), x[b], direction[b])
        z = proximal_score(score, variance, reward, link)
        pull = proximal_pull(z, score, variance, reward, link)
        for b in range(count):
            for i in range(c):
                state[rows[b] + 1 + i] += pull * direction[b, i]
            rank_one_update(square_matrix(state, rows[b] + 1 + c, c), 1.0, x[b])
        return state

    @staticmethod
    def probabilities(
        state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats, link: LinkFunctions, out: Floats
    ) -> bool:
        """Write 1 for the arm with the largest upper confidence bound."""
        point_mass(out, best_block_arm(state, settings, indptr, indices, values))
        return True


def row_width(c: int) -> int:
    """The length of a table row for blocks of c features."""
    return 1 + c + c * c


@jittable
def initial_block(c: int, root: float) -> Floats:
    """Return the numbers of a new block: theta = 0, and the factor `root` times I of the prior precision."""
    block = np.zeros(c + c * c)
    for i in range(c):
        block[c + i * c + i] = root
    return block


@jittable
def block_count(indices: Ints, c: int) -> int:
    """The number of blocks in which a row has features."""
    count, previous = 0, -1
    for index in indices:
        count += 1 if index // c != previous else 0
        previous = index // c
    return count


@jittable
def read_block(indices: Ints, values: Floats, k: int, end: int, c: int, x: Floats) -> int:
    """Write the features of the block that starts at entry k to x, which must be zero.

    Returns the first entry of the next block.
    """
    block = indices[k] // c
    while k < end and indices[k] // c == block:
        x[indices[k] - block * c] = values[k]
        k += 1
    return k


@jittable
def best_block_arm(state: Floats, settings: Any, indptr: Ints, indices: Ints, values: Floats) -> int:
    """Return the arm with the largest x'theta + alpha ||x||; of equal ones the first."""
    c, root = int(settings.context_dim), math.sqrt(settings.prior_precision)
    table, x, best, best_score = table_at(state, TABLE), np.empty(c), 0, -np.inf
    for a in range(indptr.shape[0] - 1):
        score, variance, k = 0.0, 0.0, indptr[a]
        while k < indptr[a + 1]:
            row = find(state, table, indices[k] // c)
            for i in range(c):
                x[i] = 0.0
            k = read_block(indices, values, k, indptr[a + 1], c, x)
            if row >= 0:
                for i in range(c):
                    score += x[i] * state[row + 1 + i]
                forward(square_matrix(state, row + 1 + c, c), x)
            else:
                for i in range(c):
                    x[i] /= root
            variance += dot(x, x)
        score += settings.alpha * math.sqrt(variance)
        if score > best_score:
            best, best_score = a, score
    return best
