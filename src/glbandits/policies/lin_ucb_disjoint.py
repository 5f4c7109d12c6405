"""LinUCB with a parameter of its own for each arm (Li, Chu, Langford and Schapire, 2010)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glbandits.numba_support import borrowed, jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number, whole
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.maths.cholesky import forward, solve_factorised, update
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.vectors import add_scaled, copy_to, dot, point_mass
from glbandits.records import Floats, Generator

EXPLORATION, CONTEXT_DIM = 0, 1
"""The settings in compiled code."""


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


@dataclass(frozen=True, kw_only=True)
class LinUcbDisjoint:
    """Ridge regression for each arm alone: pull the largest x'theta_a + alpha ||x|| in V_a^-1.

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
    keeps_history: ClassVar[bool] = False
    link: ClassVar[str | Link] = "identity"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K c^2 + K^2 c to look for blocks",
        learn="c^2",
        memory="K c^2",
        guarantee="c sqrt(K T), linear rewards",
        use_when="arms have nothing in common; c features each",
        page="linear",
    )

    context_dim: int = 1
    exploration: float | None = 1.0
    prior_precision: float = 1.0
    failure: float = 0.05

    def __post_init__(self) -> None:
        settle(
            self,
            context_dim=whole("context_dim", self.context_dim, at_least=1),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
            failure=number("failure", self.failure, above=0, at_most=1),
        )
        if self.exploration is not None:
            settle(self, exploration=number("exploration", self.exploration, at_least=0))

    def init(self, dim: int) -> Floats:
        """Zeros, then a factor for each block."""
        if dim % self.context_dim:
            raise InvalidInput(
                f"the number of features must be a multiple of context_dim={self.context_dim}, a block for each arm; "
                f"got {dim}. disjoint_arms writes such features"
            )
        factor = math.sqrt(self.prior_precision) * np.eye(self.context_dim)
        return np.concatenate([np.zeros(dim), np.tile(factor.ravel(), dim // self.context_dim)])

    def numbers(self, dim: int) -> Floats:
        """The bonus and the length of a block."""
        theory = 1.0 + math.sqrt(0.5 * math.log(2.0 / self.failure))
        return np.array([theory if self.exploration is None else self.exploration, self.context_dim])

    def fits(self, state: Floats, dim: int) -> bool:
        """A vector and factors with positive diagonals."""
        c = self.context_dim
        if dim % c or state.shape != (dim + dim * c,) or not np.isfinite(state).all():
            return False
        return bool((np.diagonal(state[dim:].reshape(-1, c, c), axis1=1, axis2=2) > 0.0).all())

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        return most_optimistic(state, settings, arms)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """The exact step of one observation, block by block."""
        dim, c, here = x.shape[0], int(settings[CONTEXT_DIM]), borrowed(state)
        direction = np.zeros(dim)
        for start in range(0, dim, c):
            if x[start : start + c].any():
                block = direction[start : start + c]
                copy_to(block, x[start : start + c])
                solve_factorised(block_factor(here, start, c, dim), block)
        theta = here[:dim]
        score, variance = dot(x, theta), dot(x, direction)
        z = proximal_score(score, variance, reward, link)
        add_scaled(theta, proximal_pull(z, score, variance, reward, link), direction)
        for start in range(0, dim, c):
            if x[start : start + c].any():
                update(block_factor(here, start, c, dim), 1.0, x[start : start + c])
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        point_mass(out, most_optimistic(state, settings, arms))
        return True


@jittable
def most_optimistic(state: Floats, settings: Floats, arms: Floats) -> int:
    """The arm with the largest x'theta + alpha ||x||, where blocks of zeros cost nothing but a look."""
    K, dim = arms.shape
    c, here, arms = int(settings[CONTEXT_DIM]), borrowed(state), borrowed(arms)
    scratch = np.empty(c)
    best, best_score = 0, -np.inf
    for a in range(K):
        score, variance = 0.0, 0.0
        for start in range(0, dim, c):
            x = arms[a, start : start + c]
            if x.any():
                score += dot(x, here[start : start + c])
                copy_to(scratch, x)
                forward(block_factor(here, start, c, dim), scratch)
                variance += dot(scratch, scratch)
        score += settings[EXPLORATION] * math.sqrt(variance)
        if score > best_score:
            best, best_score = a, score
    return best


@jittable
def block_factor(state: Floats, start: int, c: int, dim: int) -> Floats:
    """The factor of the block whose features begin at start."""
    place = dim + start * c
    return state[place : place + c * c].reshape(c, c)
