"""LinUCB with a parameter of its own for each arm (Li, Chu, Langford and Schapire, 2010)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glbandits.errors import InvalidInput
from glbandits.maths.cholesky import forward, solve_factorised, update
from glbandits.maths.links import LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import add_scaled, copy_to, dot, square_matrix
from glbandits.numba_support import jittable
from glbandits.policy import Bounds, Grid, NonNegative, Policy, PolicyInfo, Positive, PositiveInt, StateLayout, derived
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.records import Floats, Generator

LAYOUT = StateLayout()
theta_of = LAYOUT.vector("theta")
blocks_at = LAYOUT.end()
"""Behind theta: the factor of V_a for each block of features."""


def disjoint_arms(contexts: ArrayLike) -> Floats:
    """Arms (K, K d) for `LinUcbDisjoint`: the a-th has the a-th context (K, d) in its own block, zeros elsewhere.

    One context that all arms share must be repeated, K times.

    >>> disjoint_arms([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 2., 0., 0.],
           [0., 0., 3., 4.]])
    """
    rows = np.array(contexts, dtype=np.float64)
    if rows.ndim != 2:
        raise InvalidInput(f"contexts must have shape (K, d), a row for each arm; got {rows.shape}")
    K, dim = rows.shape
    arms = np.zeros((K, K, dim))
    arms[np.arange(K), np.arange(K)] = rows
    return arms.reshape(K, K * dim)


class LinUcbDisjoint(Policy):
    """Ridge regression for each arm alone: pull the largest x'theta_a + alpha ||x||_{V_a^-1}.

    The features of an arm are blocks, one for each arm there is, with its context in its own block and zeros in the
    others: `disjoint_arms` writes them. The policy keeps a matrix for each block and none between blocks, so an arm
    costs O(c^2) to score and to learn, where c is the length of a block; the state is K c^2. Arms with features in
    several blocks may be played too: blocks are then learned together, as if uncorrelated. Rewards of any range are
    taken as they are.

    Args:
        context_dim: c, the features of one block; the number of features must be a multiple of it.
        exploration: alpha; None for the theory's 1 + sqrt(log(2/delta)/2).
        prior_precision: V_a before the first reward, times I.
        failure: delta, for the theory's alpha only.

    >>> from glbandits import Bandit, LinUcbDisjoint, disjoint_arms
    >>> bandit = Bandit(LinUcbDisjoint(context_dim=2), dim=6, seed=1)
    >>> arms = disjoint_arms([[1.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
    >>> bandit.learn(arms[2], 1.0)
    >>> bandit.choose(arms)
    2
    """

    name: ClassVar[str] = "lin-ucb-disjoint"
    layout: ClassVar[StateLayout] = LAYOUT
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K c^2 + K^2 c to look for blocks", learn="c^2", memory="K c^2", page="linear",
        guarantee="c sqrt(K T), linear rewards", use_when="arms have nothing in common; c features each",
        sparse="K c^2; c^2; c^2 a block",
    )  # fmt: skip

    context_dim: PositiveInt = 1
    exploration: NonNegative | None = 1.0
    prior_precision: Positive = 1.0
    failure: Annotated[float, Bounds(above=0, at_most=1)] = 0.05

    @derived
    def alpha(self, dim: int) -> float:
        """The scale of the bonus."""
        return 1.0 + math.sqrt(0.5 * math.log(2.0 / self.failure)) if self.exploration is None else self.exploration

    def init(self, dim: int) -> Floats:
        """Zeros, then a factor for each block."""
        c = self.context_dim
        if dim % c:
            raise InvalidInput(
                f"the number of features must be a multiple of context_dim={c}, a block for each arm; "
                f"got {dim}. disjoint_arms writes such features"
            )
        state = LAYOUT.allocate(dim, tail=dim * c)
        state[dim:].reshape(-1, c, c)[:] = math.sqrt(self.prior_precision) * np.eye(c)
        return state

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """A vector and factors with positive diagonals."""
        c = self.context_dim
        if dim % c or not LAYOUT.is_valid(state, dim, tail=dim * c):
            return False
        return bool((np.diagonal(state[dim:].reshape(-1, c, c), axis1=1, axis2=2) > 0.0).all())

    @staticmethod
    def decide(state: Floats, settings: Any, arms: Floats, link: LinkFunctions) -> int:
        """The arm with the largest x'theta + alpha ||x||, where blocks of zeros are only read."""
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
        best, best_score = 0, -np.inf
        for a in range(K):
            score = scores[a] + settings.alpha * math.sqrt(variances[a])
            if score > best_score:
                best, best_score = a, score
        return best

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take the exact step of one observation, block by block."""
        dim, c = x.shape[0], int(settings.context_dim)
        theta, direction = theta_of(state, dim), np.zeros(dim)
        for start in range(0, dim, c):
            if has_features(x, start, c):
                block = direction[start : start + c]
                copy_to(block, x[start : start + c])
                solve_factorised(block_factor(state, start, c, dim), block)
        score, variance = dot(x, theta), dot(x, direction)
        z = proximal_score(score, variance, reward, link)
        add_scaled(theta, proximal_pull(z, score, variance, reward, link), direction)
        for start in range(0, dim, c):
            if has_features(x, start, c):
                update(block_factor(state, start, c, dim), 1.0, x[start : start + c])
        return state


@jittable
def block_factor(state: Floats, start: int, c: int, dim: int) -> Floats:
    """The factor of the block whose features begin at start."""
    return square_matrix(state, blocks_at(dim) + start * c, c)


@jittable
def has_features(x: Floats, start: int, c: int) -> bool:
    """Whether the block that begins at start has a number other than 0."""
    found = False
    for i in range(start, start + c):
        found = found or x[i] != 0.0
    return found
