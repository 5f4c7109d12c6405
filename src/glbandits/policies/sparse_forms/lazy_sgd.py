"""The estimates of SGD-TS for features in a hash table (`maths.feature_table`).

The time for a block is proportional to the number of features in its rewards, not to the number of all features:

- theta_tilde_j = theta_hat + s_j u_j after block j. A gradient changes only those coordinates of u whose features are
  in the rewards of the block. The projection onto the ball changes only the scalar s.
- theta_bar_j, the mean of theta_tilde_1 .. theta_tilde_j, is theta_hat + (S_j u_j - c_j) / j, where S_j = s_1 + ... +
  s_j. When a coordinate of u changes in block j, the same coordinate of c increases by S_{j-1} times the change.
- The features in the rewards of the current block form a linked list through their table rows.
- A draw theta_TS is not stored. The state stores the generator that made it, from which each coordinate of the draw is
  computed when a decision needs it.
"""

import math

import numpy as np

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import EMPTY, HEADER, find, insert_all, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import COUNTER, noise_at
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.algorithms.sgd_ts import BLOCK, SCALARS
from glbandits.policies.contract import StateLayout

LAYOUT = StateLayout(SCALARS)
SCALE, SCALE_SUM = LAYOUT.scalar("scale", at_least=0.0), LAYOUT.scalar("scale_sum", at_least=0.0)
"""s and S of the module docstring."""
SQUARED_NORM = LAYOUT.scalar("squared_norm", at_least=0.0)
"""||u||^2."""
TOUCHED = LAYOUT.scalar("touched", at_least=-1.0)
"""The first feature of the linked list, or END."""
FILLED = LAYOUT.count("filled")
"""The length of the rows of the first block (`first_block`), which are where later the table is."""
GENERATOR, *_ = (LAYOUT.count(f"{word}_{half}") for word in ("key", "stream", "counter") for half in ("high", "low"))
"""The offset of the generator of the draws. It consists of three integers of 64 bits (`maths.philox`). A float64 has
only 53 bits, so the upper and the lower 32 bits of each are stored as two numbers."""
TABLE = LAYOUT.end()(0)
"""The offset of the table."""

HAT, U, C, GRADIENT, NEXT, ROW = 1, 2, 3, 4, 5, 6
"""Columns of a table row (column 0 is the feature), and the number of columns. NEXT is the next feature of the list."""
END, UNTOUCHED = -1.0, -2.0
"""Values of NEXT: at the end of the list, and for features that are not in the list."""
LEAST_SCALE = 1e-3
"""If s is below this, `rescale` is called, because rounding errors of c grow. Only many projections make s so small."""

_BITS_32, _LOW_32 = np.uint64(32), np.uint64(0xFFFFFFFF)


@jittable
def initial_row() -> Floats:
    """Return the numbers of a new table row, after the feature."""
    return np.array([0.0, 0.0, 0.0, 0.0, UNTOUCHED])


@jittable
def theta_tilde_score(state: Floats, rows: Ints, values: Floats) -> float:
    """Return x'theta_tilde for an x whose features are in these table rows."""
    score = 0.0
    for k in range(rows.shape[0]):
        score += values[k] * (state[rows[k] + HAT] + state[SCALE] * state[rows[k] + U])
    return score


@jittable
def add_gradient(state: Floats, x: SparseRow, reward: float, link: LinkFunctions) -> Floats:
    """Add the term of one reward to the gradient of the block. Returns the state, which may be a larger array."""
    indices, values = x
    rows = np.empty(indices.shape[0], dtype=np.int64)
    state = insert_all(state, TABLE, indices, rows, initial_row())
    error = link.mean(theta_tilde_score(state, rows, values)) - reward
    for k in range(rows.shape[0]):
        state[rows[k] + GRADIENT] += error * values[k]
        if state[rows[k] + NEXT] == UNTOUCHED:
            state[rows[k] + NEXT] = state[TOUCHED]
            state[TOUCHED] = float(indices[k])
    return state


@jittable
def take_step(state: Floats, step: float, radius: float) -> None:
    """Take the gradient step of a complete block, project theta_tilde onto the ball, and update theta_bar."""
    table, s, squared = table_at(state, TABLE), state[SCALE], state[SQUARED_NORM]
    while state[TOUCHED] != END:
        row = find(state, table, int(state[TOUCHED]))
        old, change = state[row + U], -step / s * state[row + GRADIENT]
        state[row + U] = old + change
        state[row + C] += state[SCALE_SUM] * change
        squared += state[row + U] * state[row + U] - old * old
        state[TOUCHED] = state[row + NEXT]
        state[row + GRADIENT], state[row + NEXT] = 0.0, UNTOUCHED
    state[SQUARED_NORM] = max(squared, 0.0)
    distance = s * math.sqrt(state[SQUARED_NORM])
    if distance > radius:
        state[SCALE] *= radius / distance
    state[SCALE_SUM] += state[SCALE]
    if state[SCALE] < LEAST_SCALE:
        rescale(state)


@jittable
def rescale(state: Floats) -> None:
    """Change u and c such that s = 1 and S = 0, with the same theta_tilde and theta_bar."""
    squared = 0.0
    for row in range(TABLE + HEADER, state.shape[0], ROW):
        if state[row] != EMPTY:
            state[row + C] -= state[SCALE_SUM] * state[row + U]
            state[row + U] *= state[SCALE]
            squared += state[row + U] * state[row + U]
    state[SCALE], state[SCALE_SUM], state[SQUARED_NORM] = 1.0, 0.0, squared


@jittable
def store_generator(state: Floats, rng: Generator) -> None:
    """Store the generator, from which the draws of the next block are computed."""
    for word in range(3):
        state[GENERATOR + 2 * word] = float(rng[word] >> _BITS_32)
        state[GENERATOR + 2 * word + 1] = float(rng[word] & _LOW_32)


@jittable
def stored_generator(state: Floats, index: int, dim: int) -> Generator:
    """Return the generator at the start of a draw of the current block, from which `noise_at` computes the draw."""
    rng = np.empty(3, dtype=np.uint64)
    for word in range(3):
        high, low = np.uint64(state[GENERATOR + 2 * word]), np.uint64(state[GENERATOR + 2 * word + 1])
        rng[word] = (high << _BITS_32) | low
    rng[COUNTER] += np.uint64(index * ((dim + 1) // 2))  # as `skip_normals` for each earlier draw
    return rng


@jittable
def scores_under_draw(state: Floats, arms: SparseRows, deviation: float, rng: Generator, out: Floats) -> None:
    """Write x'theta_TS of each arm, where theta_TS is theta_bar plus noise from this generator.

    Does not advance the generator.
    """
    indptr, indices, values = arms
    table = table_at(state, TABLE)
    S, j = state[SCALE_SUM], state[BLOCK]
    for a in range(indptr.shape[0] - 1):
        score = 0.0
        for k in range(indptr[a], indptr[a + 1]):
            row, theta = find(state, table, indices[k]), 0.0
            if row >= 0:
                theta = state[row + HAT] + (S * state[row + U] - state[row + C]) / j
            score += values[k] * (theta + noise_at(indices[k], deviation, rng))
        out[a] = score


def is_valid_generator(state: Floats) -> bool:
    """Whether all numbers of the stored generator have 32 bits."""
    return bool((state[GENERATOR : GENERATOR + 6] < 2.0**32).all())


def is_valid_list(state: Floats, entries: Floats) -> bool:
    """Whether the linked list has no cycle, and contains exactly the entries whose NEXT is not UNTOUCHED."""
    next_features = dict(zip(entries[:, 0].tolist(), entries[:, NEXT].tolist(), strict=True))
    feature, count = float(state[TOUCHED]), 0
    while feature != END:
        count += 1
        if feature not in next_features or count > len(next_features):
            return False
        feature = next_features[feature]
    return count == int((entries[:, NEXT] != UNTOUCHED).sum())
