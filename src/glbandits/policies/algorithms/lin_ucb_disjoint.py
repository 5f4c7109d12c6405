"""Disjoint LinUCB: a separate theta for each arm (Li, Chu, Langford and Schapire, 2010)."""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import MAX_ABS, InvalidInput, value_text
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import backward, drop_overflow, forward, precise_variance, rank_one_update
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import add_scaled, copy_to, dot, square_matrix
from glbandits.policies.contract import (
    Grid,
    NonNegative,
    Policy,
    PolicyInfo,
    Positive,
    PositiveInt,
    StateLayout,
)
from glbandits.policies.shared.shared_settings import EXPLORATIONS

LAYOUT = StateLayout()
theta_of = LAYOUT.vector("theta")
blocks_at = LAYOUT.end()
"""The offset of the Cholesky factors of V_a, one for each block of features."""


def disjoint_arms(contexts: ArrayLike) -> Floats:
    """Return features (K, K d) for `LinUcbDisjoint` from contexts (K, d), one for each arm.

    Row a contains context a in block a, and zeros elsewhere. A context that all arms share must be repeated K times.

    >>> disjoint_arms([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 2., 0., 0.],
           [0., 0., 3., 4.]])
    """
    try:
        rows = np.array(contexts, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"contexts must be finite numbers: {error}") from None
    if rows.ndim != 2:
        raise InvalidInput(f"contexts must have shape (K, d), a row for each arm; got {rows.shape}")
    if not (np.abs(rows) <= MAX_ABS).all():
        raise InvalidInput(f"contexts must be finite numbers no larger than {MAX_ABS:g}; got {value_text(contexts)}")
    K, dim = rows.shape
    arms = np.zeros((K, K, dim))
    arms[np.arange(K), np.arange(K)] = rows
    return arms.reshape(K, K * dim)


class LinUcbDisjoint(Policy):
    """Pull the largest x'theta_a + alpha ||x||_{V_a^-1}, with ridge regression for each arm.

    The features of an arm are K blocks of length c. The arm's own block contains its context; the others are zero.
    `disjoint_arms` creates such features. The policy has a matrix for each block and no correlations between blocks, so
    an arm takes O(c^2) to score and to learn, and the state has K c^2 numbers. Arms with features in several blocks are
    allowed: these blocks are learned together, as if they were uncorrelated. The link is the identity, so rewards may
    have any range.

    Args:
        context_dim: c, the number of features of a block. The total number of features must be a multiple of c.
        exploration: alpha.
        prior_precision: the initial V_a is this times I.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import LinUcbDisjoint, disjoint_arms
    >>> bandit = Bandit(LinUcbDisjoint(context_dim=2), dim=6, seed=1)
    >>> arms = disjoint_arms([[1.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
    >>> bandit.learn(arms[2], 1.0)
    >>> bandit.choose(arms)
    2
    """

    name: ClassVar[str] = "lin-ucb-disjoint"
    layout: ClassVar[StateLayout] = LAYOUT
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("context_dim", "exploration")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K c^2 + K^2 c to find the blocks", learn="c^2", memory="K c^2", page="linear",
        guarantee="c sqrt(K T), linear rewards", use_when="arms share no parameters; c features each",
    )  # fmt: skip

    context_dim: PositiveInt = 1
    exploration: NonNegative = 1.0
    prior_precision: Positive = 1.0

    def init(self, dim: int) -> Floats:
        """Return the initial state. Raises InvalidInput if dim is not a multiple of context_dim."""
        c = self.context_dim
        if dim % c:
            raise InvalidInput(
                f"the number of features must be a multiple of context_dim={c}, a block for each arm; "
                f"got {dim}. disjoint_arms creates such features"
            )
        state = LAYOUT.allocate(dim, tail=dim * c)
        state[dim:].reshape(-1, c, c)[:] = math.sqrt(self.prior_precision) * np.eye(c)
        return state

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        c = self.context_dim
        if dim % c or not LAYOUT.is_valid(state, dim, tail=dim * c):
            return False
        return bool((np.diagonal(state[dim:].reshape(-1, c, c), axis1=1, axis2=2) > 0.0).all())

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm. Skips blocks of zeros."""
        (K, dim), c = arms.shape, int(settings.context_dim)
        theta, scores, variances, x = theta_of(state, dim), np.zeros(K), np.zeros(K), np.empty(c)
        for start in range(0, dim, c):
            R = block_factor(state, start, c, dim)
            for a in range(K):
                score, is_zero = 0.0, True
                for i in range(c):
                    x[i] = arms[a, start + i]
                    score += x[i] * theta[start + i]
                    is_zero = is_zero and x[i] == 0.0
                if not is_zero:
                    scores[a] += score
                    forward(R, x)
                    variances[a] += dot(x, x)
        for a in range(K):
            out[a] = scores[a] + settings.exploration * math.sqrt(variances[a])

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Update theta and V_a of every block in which x has features."""
        dim, c = x.shape[0], int(settings.context_dim)
        theta, direction, squared = theta_of(state, dim), np.zeros(dim), 0.0
        for start in range(0, dim, c):
            if has_features(x, start, c):
                R, block = block_factor(state, start, c, dim), direction[start : start + c]
                copy_to(block, x[start : start + c])
                forward(R, block)
                squared += dot(block, block)
                backward(R, block)
                drop_overflow(block)
        score, variance = dot(x, theta), precise_variance(dot(x, direction), squared)
        z = proximal_score(score, variance, reward, link)
        add_scaled(theta, proximal_pull(z, score, variance, reward, link), direction)
        for start in range(0, dim, c):
            if has_features(x, start, c):
                rank_one_update(block_factor(state, start, c, dim), 1.0, x[start : start + c])
        return state


@jittable
def block_factor(state: Floats, start: int, c: int, dim: int) -> Floats:
    """Return the Cholesky factor of the block whose features begin at `start`."""
    return square_matrix(state, blocks_at(dim) + start * c, c)


@jittable
def has_features(x: Floats, start: int, c: int) -> bool:
    """Whether the block that begins at `start` has a nonzero feature."""
    has_nonzero = False
    for i in range(start, start + c):
        has_nonzero = has_nonzero or x[i] != 0.0
    return has_nonzero
