"""Laplace-TS: Thompson sampling with a diagonal posterior (Chapelle and Li, 2011)."""

import math
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.feature_table import entries_of, find, table_at
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals, noise_at, skip_normals
from glbandits.maths.sparse_rows import SparseRow, SparseRows
from glbandits.policies.contract import (
    AnyLink,
    Coefficients,
    Grid,
    NonNegative,
    Policy,
    PolicyInfo,
    Positive,
    StateLayout,
)
from glbandits.policies.shared.diagonal_step import take_diagonal_step
from glbandits.policies.shared.shared_settings import STEPS
from glbandits.policies.shared.sparse.diagonal import MEAN, PRECISION, TABLE, SparseDiagonal, learn_diagonal

LAYOUT = StateLayout()
means_of = LAYOUT.vector("means")
precisions_of = LAYOUT.vector("precisions", positive=True)


class LaplaceTs(Policy):
    """Thompson sampling with independent posteriors N(m_i, 1/q_i) of the coordinates of theta.

    1. Draw w_i ~ N(m_i, a^2/q_i) for each decision, and pull the arm with the largest x'w.
    2. For a reward y of x, move m to the w that minimises (1/2) sum_i q_i (w_i - m_i)^2 + M(x'w) - y x'w, where M is
       the antiderivative of mu. Then q_i += mu'(x'm) x_i^2.

    The minimum is the root of one scalar equation, so there is no step size to tune. O(K d) to choose, O(d) to learn.

    Args:
        link: mu, any link; logistic in the paper.
        exploration: a, the scale of the draw.
        prior_precision: the initial q_i.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import LaplaceTs
    >>> bandit = Bandit(LaplaceTs(exploration=0.0), dim=2, seed=1)
    >>> bandit.learn([1.0, -1.0], 1.0)
    >>> bandit.choose([[0.0, 1.0], [1.0, 0.0]])
    1
    """

    name: ClassVar[str] = "laplace-ts"
    draws_anew: ClassVar[bool] = True
    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "means"
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration",)
    grid: ClassVar[Grid] = {"exploration": STEPS}
    """Seven values as in the SGD-TS paper, which tunes the step size of a solver that is not needed here."""
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="d", memory="d",
        guarantee="none", use_when="d is large and features are nearly uncorrelated",
        sparse="K n; n; f",
    )  # fmt: skip

    link: AnyLink = "logistic"
    exploration: NonNegative = 1.0
    prior_precision: Positive = 1.0

    def init(self, dim: int) -> Floats:
        return LAYOUT.allocate(dim, precisions=self.prior_precision)

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats | None:
        return np.asarray(np.square(arms) @ (1.0 / precisions_of(state, dim)))

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Draw w from its posterior."""
        m, q, w = means_of(state, dim), precisions_of(state, dim), np.zeros(dim)
        add_normals(w, settings.exploration, rng)
        for i in range(dim):
            w[i] = m[i] + w[i] / math.sqrt(q[i])
        return w

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Update the posterior by one reward."""
        dim = x.shape[0]
        take_diagonal_step(means_of(state, dim), precisions_of(state, dim), x, reward, link)
        return state


class SparseLaplaceTs(SparseDiagonal, LaplaceTs, sparse=True):
    """The sparse form of `LaplaceTs`. It makes the same draws, but only of the features of the arms.

    A coordinate of a draw is a function of its index and of the generator, so it does not depend on other coordinates.
    """

    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "prior_precision", "dimension")

    def dimension(self, dim: int) -> int:
        """The number of normal variates by which a decision advances the generator."""
        return dim

    def score_variances(self, state: Floats, dim: int, arms: SparseRows) -> Floats | None:
        entries, prior = entries_of(state, TABLE), 1.0 / self.prior_precision
        learned = Coefficients(1.0 / entries[:, PRECISION] - prior, indices=entries[:, 0].astype(np.int64))
        return arms.row_sums(np.square(arms.values) * (prior + learned.at(arms.indices)))

    @staticmethod
    def scores(
        state: Floats, settings: Any, arms: SparseRows, draw: int, rng: Generator, link: LinkFunctions, out: Floats
    ) -> None:
        """Write the scores under a draw of w."""
        indptr, indices, values = arms
        table = table_at(state, TABLE)
        prior_root = math.sqrt(settings.prior_precision)
        for a in range(indptr.shape[0] - 1):
            score = 0.0
            for k in range(indptr[a], indptr[a + 1]):
                row = find(state, table, indices[k])
                noise = noise_at(indices[k], settings.exploration, rng)
                if row >= 0:
                    score += values[k] * (state[row + MEAN] + noise / math.sqrt(state[row + PRECISION]))
                else:
                    score += values[k] * (noise / prior_root)
            out[a] = score
        skip_normals(int(settings.dimension), rng)

    @staticmethod
    def learn(  # type: ignore[override]
        state: Floats, settings: Any, x: SparseRow, reward: float, rng: Generator, link: LinkFunctions
    ) -> Floats:
        """Update the posterior by one reward."""
        return learn_diagonal(state, x, reward, settings.prior_precision, link)
