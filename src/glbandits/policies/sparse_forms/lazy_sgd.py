"""The estimates of SGD-TS for features in a hash table (`maths.feature_table`).

The time for a block is proportional to the number of features in its rewards, not to the number of all features:

- theta_tilde_j = theta_hat + s_j u_j after block j. A gradient changes only those coordinates of u whose features are
  in the rewards of the block. The projection onto the ball changes only the scalar s.
- theta_bar_j, the mean of theta_tilde_1 .. theta_tilde_j, is theta_hat + (S_j u_j - c_j) / j, where S_j = s_1 + ... +
  s_j. When a coordinate of u changes in block j, the same coordinate of c increases by S_{j-1} times the change.
- The features in the rewards of the current block form a linked list through their table rows.
- A draw theta_TS is not stored. The state stores the generator at the end of the block, from which each coordinate of
  the draw is computed when a decision needs it.
"""

import math

import numpy as np

from glbandits.common.arrays import Floats, Generator, Ints
from glbandits.compilation.numba_support import jittable
from glbandits.maths.feature_table import EMPTY, HEADER, find, insert_all, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import COUNTER, KEY, STREAM, noise_at
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
"""The length of the rows of the first block (`first_block`), which precede the table at the same offset."""
_words = [LAYOUT.count(f"{word}_{half}") for word in ("key", "stream", "counter") for half in ("high", "low")]
DRAW = _words[0]
"""The offset of the stored generator: three words of 64 bits, each as two halves that a float64 represents exactly."""
TABLE = LAYOUT.end()(0)
"""The offset of the table."""

HAT, U, C, GRADIENT, NEXT, ROW = 1, 2, 3, 4, 5, 6
"""Columns of a table row (column 0 is the feature), and the number of columns. NEXT is the next feature of the list."""
END, UNTOUCHED = -1.0, -2.0
"""Values of NEXT: at the end of the list, and for features that are not in the list."""
LEAST_SCALE = 1e-3
"""If s is below this, `rescale` is called, because rounding errors of c grow. Only many projections make s so small."""

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_TWO_32 = 4294967296.0


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
def add_gradient(state: Floats, indices: Ints, values: Floats, reward: float, link: LinkFunctions) -> Floats:
    """Add the term of one reward to the gradient of the block. Returns the state, which may be a larger array."""
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
        value = rng[KEY] if word == 0 else rng[STREAM] if word == 1 else rng[COUNTER]
        state[DRAW + 2 * word] = float(value >> _HALF)
        state[DRAW + 2 * word + 1] = float(value & _LOW)


@jittable
def stored_word(state: Floats, word: int) -> np.uint64:
    """Return a word of the stored generator: 0 is its key, 1 its stream, 2 its counter."""
    return (np.uint64(state[DRAW + 2 * word]) << _HALF) | np.uint64(state[DRAW + 2 * word + 1])


@jittable
def best_under_draw(
    state: Floats,
    indptr: Ints,
    indices: Ints,
    values: Floats,
    deviation: float,
    key: np.uint64,
    stream: np.uint64,
    counter: np.uint64,
) -> int:
    """Return the arm with the largest x'theta_TS, where theta_TS is theta_bar plus noise from this generator."""
    table, best, best_score = table_at(state, TABLE), 0, -np.inf
    S, j = state[SCALE_SUM], state[BLOCK]
    for a in range(indptr.shape[0] - 1):
        score = 0.0
        for k in range(indptr[a], indptr[a + 1]):
            row, theta = find(state, table, indices[k]), 0.0
            if row >= 0:
                theta = state[row + HAT] + (S * state[row + U] - state[row + C]) / j
            score += values[k] * (theta + noise_at(indices[k], deviation, key, stream, counter))
        if score > best_score:
            best, best_score = a, score
    return best


def are_valid_words(state: Floats) -> bool:
    """Whether the halves of the words of the stored generator are below 2^32."""
    return bool((state[DRAW : DRAW + 6] < _TWO_32).all())


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
