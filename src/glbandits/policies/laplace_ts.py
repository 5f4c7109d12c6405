"""Laplace-TS: Thompson sampling with a diagonal Laplace approximation (Chapelle and Li, 2011)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import number
from glbandits.policy_bases.grids import STEPS
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.proximal import proximal_pull, proximal_score
from glbandits.maths.philox import add_normals
from glbandits.maths.vectors import best_arm, dot
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class LaplaceTs:
    """Independent normal beliefs N(m_i, 1/q_i) about each coordinate of theta.

    Draw w_i ~ N(m_i, a^2/q_i) and pull the largest x'w. A reward y of x moves m to the minimum of
    (1/2) sum q_i (w_i - m_i)^2 + m(x'w) - y x'w, and adds its curvature: q_i += mu'(x'm) x_i^2. That minimum is one
    root of one equation, so there is no step size to tune. O(K d) to choose, O(d) to learn.

    Args:
        link: mu, any link; the paper's is logistic.
        exploration: a, the scale of the draw.
        prior_precision: q_i before the first reward.

    >>> from glbandits import Bandit, LaplaceTs
    >>> bandit = Bandit(LaplaceTs(exploration=0.0), dim=2, seed=1)
    >>> bandit.learn([1.0, -1.0], 1.0)
    >>> bandit.choose([[0.0, 1.0], [1.0, 0.0]])
    1
    """

    name: ClassVar[str] = "laplace-ts"
    keeps_history: ClassVar[bool] = False
    grid: ClassVar[Grid] = {"exploration": STEPS}
    """Seven values as in the paper, which spends them on the step size of a solver that is not needed here."""
    card: ClassVar[Card] = Card(
        choose="K d",
        learn="d",
        memory="d",
        guarantee="none",
        use_when="d is large and features are nearly uncorrelated",
        page="laplace-ts",
    )

    link: str | Link = "logistic"
    exploration: float = 1.0
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        find_link(self.link)
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
        )

    def init(self, dim: int) -> Floats:
        """The means m, then the precisions q."""
        return np.concatenate([np.zeros(dim), np.full(dim, self.prior_precision)])

    def numbers(self, dim: int) -> Floats:
        """The scale of the draw."""
        return np.array([self.exploration])

    def fits(self, state: Floats, dim: int) -> bool:
        """Means and positive precisions."""
        return state.shape == (2 * dim,) and bool(np.isfinite(state).all() and (state[dim:] > 0.0).all())

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The best arm under a draw of every coordinate."""
        dim = arms.shape[1]
        w = np.zeros(dim)
        add_normals(w, settings[0], rng)
        for i in range(dim):
            w[i] = state[i] + w[i] / math.sqrt(state[dim + i])
        return best_arm(arms, w)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """The exact step of one observation, coordinate by coordinate."""
        dim = x.shape[0]
        m, q = state[:dim], state[dim:]
        variance = 0.0
        for i in range(dim):
            variance += x[i] * x[i] / q[i]
        score = dot(x, m)
        z = proximal_score(score, variance, reward, link)
        pull, curvature = proximal_pull(z, score, variance, reward, link), link.slope(z)
        for i in range(dim):
            m[i] += pull * x[i] / q[i]
            q[i] += curvature * x[i] * x[i]
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """No exact form."""
        return False
