"""A covariance matrix in blocks of features that occur together.

It is exact in blocks, and zero between blocks. Up to `LARGEST_BLOCK` features there is one block, so the matrix is
exact. With more features every feature starts as a block of its own, and an observation merges the blocks in which it
is not zero. Arms that have a block of features for each class therefore get an exact matrix for each class.
Observations with more non-zero features than `LARGEST_BLOCK` merge them in blocks of `CHUNK` features, so time and
memory stay linear in the number of features.

The blocks are the last part of a state, one after another. A block of n features is 1 + n + n^2 numbers: n, the
indices of its features, and the factor of its matrix (`covariance_factor`).
"""

import numpy as np
from numba import types

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.numba_support import READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.vectors import square_matrix

LARGEST_BLOCK = 128
"""The largest number of features in one block."""
CHUNK = 32
"""The largest number of features in a block of an observation with more than LARGEST_BLOCK features."""


def initial_size(dim: int, *, is_diagonal: bool = False) -> int:
    """The number of numbers that `set_initial_blocks` writes."""
    return 1 + dim + dim**2 if dim <= LARGEST_BLOCK and not is_diagonal else 3 * dim


def set_initial_blocks(blocks: Floats, dim: int, *, is_diagonal: bool = False) -> None:
    """Write the blocks before the first observation, with variances of 1.

    Each feature is a block if `is_diagonal`.
    """
    if dim <= LARGEST_BLOCK and not is_diagonal:
        blocks[0], blocks[1 : 1 + dim], blocks[1 + dim :] = dim, np.arange(dim), np.eye(dim).ravel()
    else:
        rows = blocks.reshape(dim, 3)
        rows[:, 0], rows[:, 1], rows[:, 2] = 1.0, np.arange(dim), 1.0


def are_valid_blocks(blocks: Floats, dim: int) -> bool:
    """Whether these numbers are blocks that hold every feature once, with positive variances.

    A block of all features must hold them in order.
    """
    members, variances, start = [], [], 0
    while start < blocks.size:
        n = blocks[start]
        if not (1 <= n <= LARGEST_BLOCK and n.is_integer()) or start + 1 + n + n * n > blocks.size:
            return False
        size = int(n)
        first, start = start + 1 + size, start + 1 + size + size**2
        members.append(blocks[first - size : first])
        variances.append(blocks[first : start : size + 1])
    if not members or not (np.concatenate(variances) > 0.0).all():
        return False
    features = members[0] if len(members) == 1 else np.sort(np.concatenate(members))
    return np.array_equal(features, np.arange(dim))


@jittable
def block_matrix(state: Floats, start: int) -> Floats:
    """The factor of the block that begins at `start`: a view."""
    n = int(state[start])
    return square_matrix(state, start + 1 + n, n)


@jittable
def block_end(state: Floats, start: int) -> int:
    """The offset of the next block."""
    n = int(state[start])
    return start + 1 + n + n * n


@jittable
def gather(state: Floats, start: int, vector: Floats, out: Floats) -> bool:
    """Copy the features of a block from a vector of all features.

    Returns whether one of them is not zero.
    """
    n, present = int(state[start]), False
    for k in range(n):
        out[k] = vector[int(state[start + 1 + k])]
        present = present or out[k] != 0.0
    return present


@jittable
def scatter(state: Floats, start: int, values: Floats, vector: Floats) -> None:
    """Copy the values of a block's features to a vector of all features."""
    for k in range(int(state[start])):
        vector[int(state[start + 1 + k])] = values[k]


@shared(VECTOR(VECTOR, types.int64, READ_VECTOR))
def merge_blocks(state: Floats, start: int, x: Floats) -> Floats:
    """Merge the blocks in which x is not zero.

    Returns the state: a larger copy if blocks were merged. The blocks begin at `start`. If they have more than
    LARGEST_BLOCK features, they are merged up to CHUNK features.
    """
    total, present, at = 0, 0, start
    while at < state.shape[0]:
        if touches(state, at, x):
            total += int(state[at])
            present += 1
        at = block_end(state, at)
    if present <= 1:
        return state
    limit = LARGEST_BLOCK if total <= LARGEST_BLOCK else CHUNK
    # The group of each block: blocks of one group are merged. Groups are numbered in the order of their first block.
    groups, sizes = np.empty(x.shape[0], dtype=np.int64), np.zeros(x.shape[0], dtype=np.int64)
    block, count, open_group, at = 0, 0, -1, start
    while at < state.shape[0]:
        n = int(state[at])
        if not touches(state, at, x):
            groups[block] = count
            count += 1
        elif open_group >= 0 and sizes[open_group] + n <= limit:
            groups[block] = open_group
        else:
            groups[block] = open_group = count
            count += 1
        sizes[groups[block]] += n
        block, at = block + 1, block_end(state, at)
    return state if count == block else grouped_blocks(state, start, groups, sizes[:count])


@jittable
def touches(state: Floats, start: int, x: Floats) -> bool:
    """Whether a feature of the block is not zero in x."""
    present = False
    for k in range(int(state[start])):
        present = present or x[int(state[start + 1 + k])] != 0.0
    return present


@jittable
def grouped_blocks(state: Floats, start: int, groups: Ints, sizes: Ints) -> Floats:
    """Copy the state with blocks of the same group merged; they are uncorrelated so far."""
    starts, filled = np.empty(sizes.shape[0], dtype=np.int64), np.zeros(sizes.shape[0], dtype=np.int64)
    end = start
    for group in range(sizes.shape[0]):
        starts[group] = end
        end += 1 + sizes[group] + sizes[group] * sizes[group]
    merged = np.zeros(end)
    for i in range(start):
        merged[i] = state[i]
    block, at = 0, start
    while at < state.shape[0]:
        n, group = int(state[at]), groups[block]
        to, size, row = starts[group], sizes[group], filled[group]
        merged[to] = size
        for i in range(n):
            merged[to + 1 + row + i] = state[at + 1 + i]
            for j in range(n):
                merged[to + 1 + size + (row + i) * size + row + j] = state[at + 1 + n + i * n + j]
        filled[group] += n
        block, at = block + 1, block_end(state, at)
    return merged
