"""The estimates of SGD-TS for features in a table, such that a block costs what its rewards touched.

theta_tilde_j = theta_hat + s_j u_j, where the projection onto the ball changes the number s alone, and a gradient the
coordinates of u that its block touched. With S_j = s_1 + ... + s_j the mean of theta_tilde_1 .. theta_tilde_j is
theta_hat + (S_j u_j - c_j) / j, where c grows by S_{j-1} times each change of u. The features that a block touched are
a linked list through their rows. A draw theta_TS is not stored: its coordinates follow from the generator at the
block's end.
"""

import math

import numpy as np

from glbandits.maths.feature_table import EMPTY, HEADER, find, insert_all, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import COUNTER, KEY, STREAM, noise_at
from glbandits.numba_support import jittable
from glbandits.policies.sgd_ts import BLOCK, SCALARS
from glbandits.policy import StateLayout
from glbandits.records import Floats, Generator, Ints

LAYOUT = StateLayout(SCALARS)
SCALE, SCALE_SUM = LAYOUT.scalar("scale", at_least=0.0), LAYOUT.scalar("scale_sum", at_least=0.0)
"""s and S."""
SQUARED_NORM = LAYOUT.scalar("squared_norm", at_least=0.0)
"""||u||^2."""
TOUCHED = LAYOUT.scalar("touched", at_least=-1.0)
"""The feature that the block touched last, or END."""
FILLED = LAYOUT.count("filled")
"""In the first block: the numbers of its rows, which are in the place of the table."""
_words = [LAYOUT.count(f"{word}_{half}") for word in ("key", "stream", "counter") for half in ("high", "low")]
DRAW = _words[0]
"""The generator of the held draws, in halves that a float holds exactly."""
TABLE = LAYOUT.end()(0)
"""The offset of the table."""

HAT, U, C, GRADIENT, NEXT, ROW = 1, 2, 3, 4, 5, 6
"""What a row holds behind the feature, and its width. NEXT is the feature touched before."""
END, UNTOUCHED = -1.0, -2.0
LEAST_SCALE = 1e-3
"""Below this u is rescaled, because c would lose its digits. It takes many projections to get there."""

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_TWO_32 = 4294967296.0


@jittable
def initial_row() -> Floats:
    """The numbers of a feature that was never learned."""
    return np.array([0.0, 0.0, 0.0, 0.0, UNTOUCHED])


@jittable
def theta_tilde_score(state: Floats, rows: Ints, values: Floats) -> float:
    """x'theta_tilde."""
    score = 0.0
    for k in range(rows.shape[0]):
        score += values[k] * (state[rows[k] + HAT] + state[SCALE] * state[rows[k] + U])
    return score


@jittable
def add_gradient(state: Floats, indices: Ints, values: Floats, reward: float, link: LinkFunctions) -> Floats:
    """Add a term of the block's gradient. Returns the state, maybe a larger one."""
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
    """Move theta_tilde against the block's gradient, project it onto the ball, and add it to the mean."""
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
    """Put s at 1 and S at 0, with the same theta_tilde and mean."""
    squared = 0.0
    for row in range(TABLE + HEADER, state.shape[0], ROW):
        if state[row] != EMPTY:
            state[row + C] -= state[SCALE_SUM] * state[row + U]
            state[row + U] *= state[SCALE]
            squared += state[row + U] * state[row + U]
    state[SCALE], state[SCALE_SUM], state[SQUARED_NORM] = 1.0, 0.0, squared


@jittable
def hold_draws(state: Floats, rng: Generator) -> None:
    """Store the generator of the draws of the next block."""
    for word in range(3):
        value = rng[KEY] if word == 0 else rng[STREAM] if word == 1 else rng[COUNTER]
        state[DRAW + 2 * word] = float(value >> _HALF)
        state[DRAW + 2 * word + 1] = float(value & _LOW)


@jittable
def held_word(state: Floats, word: int) -> np.uint64:
    """One of the three words of the generator of the held draws."""
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
    """The arm with the largest x'theta_TS, where theta_TS is theta_bar plus noise from a generator in this state."""
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
    """Whether the halves of the generator's words are below 2^32."""
    return bool((state[DRAW : DRAW + 6] < _TWO_32).all())


def is_valid_list(state: Floats, entries: Floats) -> bool:
    """Whether the features that the block touched are a list without a circle through entries of the table."""
    following = dict(zip(entries[:, 0].tolist(), entries[:, NEXT].tolist(), strict=True))
    feature, count = float(state[TOUCHED]), 0
    while feature != END:
        count += 1
        if feature not in following or count > len(following):
            return False
        feature = following[feature]
    return count == int((entries[:, NEXT] != UNTOUCHED).sum())
