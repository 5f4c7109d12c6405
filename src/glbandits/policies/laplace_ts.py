"""Laplace-TS: Thompson sampling with a diagonal Laplace approximation (Chapelle and Li, 2011)."""

import math
from typing import Any, ClassVar

import numpy as np

from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals
from glbandits.maths.vectors import best_arm
from glbandits.policy import AnyLink, Grid, NonNegative, Policy, PolicyInfo, Positive, StateLayout
from glbandits.policy_bases.diagonal_step import take_diagonal_step
from glbandits.policy_bases.grids import STEPS
from glbandits.records import Floats, Generator

LAYOUT = StateLayout()
means_of = LAYOUT.vector("means")
precisions_of = LAYOUT.vector("precisions", positive=True)


class LaplaceTs(Policy):
    """An independent normal posterior N(m_i, 1/q_i) for each coordinate of theta.

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
    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "means"
    grid: ClassVar[Grid] = {"exploration": STEPS}
    """Seven values as in the paper, which spends them on the step size of a solver that is not needed here."""
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="d", memory="d",
        guarantee="none", use_when="d is large and features are nearly uncorrelated",
        sparse="K n; n; f",
    )  # fmt: skip

    link: AnyLink = "logistic"
    exploration: NonNegative = 1.0
    prior_precision: Positive = 1.0

    def init(self, dim: int) -> Floats:
        """Means of zero, precisions of the prior."""
        return LAYOUT.allocate(dim, precisions=self.prior_precision)

    @staticmethod
    def sample(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The best arm under a draw of every coordinate."""
        dim = arms.shape[1]
        m, q, w = means_of(state, dim), precisions_of(state, dim), np.zeros(dim)
        add_normals(w, settings.exploration, rng)
        for i in range(dim):
            w[i] = m[i] + w[i] / math.sqrt(q[i])
        return best_arm(arms, w)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take the exact step of one observation, coordinate by coordinate."""
        dim = x.shape[0]
        take_diagonal_step(means_of(state, dim), precisions_of(state, dim), x, reward, link)
        return state
