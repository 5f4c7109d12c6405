"""SparseGlm: the generalized linear model of `GlmReward` for sparse rows."""

from typing import Any

import numpy as np
from numba import types
from scipy.optimize import minimize
from scipy.sparse import csr_array

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.entry_point import Recipe, entry_point
from glbandits.compilation.numba_support import READ_ROWS, VECTOR
from glbandits.evaluation.logs.logged_data import LoggedData, chosen_rows
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.evaluation.models.link_arrays import apply_link
from glbandits.maths.arm_rows import as_arms
from glbandits.maths.feature_table import EMPTY, HEADER
from glbandits.maths.links import Link
from glbandits.maths.sparse_rows import SparseRows, joined_rows
from glbandits.policies import Optimist
from glbandits.policies.shared.posterior_state import INTERCEPT
from glbandits.policies.shared.sparse.posterior import COUPLING, MEAN, PRIOR, ROW, TABLE, sparse_score_moments

EXACT_NONZEROS = 2**21
"""Maximum number of nonzero features that are stored for the exact fit: 34 MB."""
GROWTH = 4
"""The stored rows are fitted again when their number has grown by this factor."""


class SparseGlm:
    """A generalized linear model with an intercept, for sparse rows.

    Memory grows with the number of features seen.

    The model is the posterior of `Optimist` in a sparse Bandit: one precision for each feature, without correlations.
    The first rows are stored, and Newton's method fits the coefficients to all of them. Later rows are learned online.

    Args:
        link: link of the model.
        dim: number of features of an arm.
    """

    def __init__(self, link: Link, dim: int) -> None:
        self._link, self._policy = link, Optimist(link=link)
        self._bandit = Bandit(self._policy, dim, seed=0, sparse=True)
        self._bandit.warns_of_outliers = False
        self._stored: list[tuple[SparseRows, Floats]] = []
        self._nonzeros, self._rows, self._fitted_rows = 0, 0, 0

    def learn(self, block: LoggedData) -> None:
        """Learn the rewards of the chosen arms."""
        if not len(block):
            return
        rows = chosen_rows(block)
        self._bandit.learn_batch(rows, block.rewards)
        self._rows += len(block)
        self._nonzeros += rows.indices.size
        if self._nonzeros - rows.indices.size > EXACT_NONZEROS:
            return
        self._stored.append((rows, block.rewards))
        if self._rows >= GROWTH * self._fitted_rows or self._nonzeros > EXACT_NONZEROS:
            self._fit()
        if self._nonzeros > EXACT_NONZEROS:
            self._stored.clear()

    def finish(self) -> None:
        """Fit the stored rows a last time."""
        if self._stored and self._rows > self._fitted_rows:
            self._fit()

    def predict(self, block: LoggedData) -> Floats:
        """Return the expected reward of each arm, (rows, max_arms), padded with 0."""
        assert isinstance(block.arms, SparseArms)
        rows, state = block.arms.every_arm(), self._bandit.state
        levels, variances = np.empty(rows.row_count), np.empty(rows.row_count)
        entry_point(scores_recipe).call(state, tuple(rows), levels, variances)
        expected = np.zeros((len(block), block.arms.max_arms))
        expected[block.arm_mask] = apply_link(self._link, "mean", levels + state[INTERCEPT])
        return expected

    def _fit(self) -> None:
        parts, rewards = zip(*self._stored, strict=True)
        self._stored, self._fitted_rows = [(joined_rows(parts), np.concatenate(rewards))], self._rows
        state = self._bandit.state
        precision = self._policy.intercept_precision(self._bandit.dim)
        refit_sparse(state, *self._stored[0], precision, self._link)
        self._bandit.state = state


def refit_sparse(state: Floats, rows: SparseRows, rewards: Floats, precision: float, link: Link) -> None:
    """Set the means of a state to the mode of the posterior given all rows.

    Changes `state` in place.

    Args:
        state: state of the sparse form of `Optimist`, which has learned these rows. Its prior and variances stay.
        rows: features.
        rewards: rewards of all rows.
        precision: precision of the prior of the intercept, whose mean is the score of the mean reward.
        link: link of the model.
    """
    table = state[TABLE + HEADER :].reshape(-1, ROW)
    slots = np.flatnonzero(table[:, 0] != EMPTY)
    slots = slots[np.argsort(table[slots, 0])]
    indices: Ints = np.searchsorted(table[slots, 0], rows.indices)
    scales = 1.0 / np.sqrt(table[slots, PRIOR])  # in these units each prior variance is 1
    # The last column is the intercept. Explicit zeros may be absent from the table: they go there, with value 0.
    indices[rows.values == 0.0] = len(slots)
    shape = rows.row_count, len(slots) + 1
    X = csr_array((rows.values * np.append(scales, 0.0)[indices], indices, rows.indptr), shape=shape)
    X += csr_array((np.ones(shape[0]), np.full(shape[0], len(slots)), np.arange(shape[0] + 1)), shape=shape)
    precisions = np.append(np.ones(len(slots)), precision)
    centre = np.zeros(shape[1])
    centre[-1] = link.inverse(float(rewards.sum() + link.mean(0.0)) / (len(rewards) + 1))

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores, moved = X @ theta, theta - centre
        value = apply_link(link, "antiderivative", scores).sum() - rewards @ scores + 0.5 * precisions @ (moved * moved)
        return float(value), X.T @ (apply_link(link, "mean", scores) - rewards) + precisions * moved

    def curvature(theta: Floats, direction: Floats) -> Floats:
        along: Floats = X.T @ (apply_link(link, "slope", X @ theta) * (X @ direction)) + precisions * direction
        return along

    start = np.append((table[slots, MEAN] - table[slots, COUPLING] * state[INTERCEPT]) / scales, state[INTERCEPT])
    mode: Floats = minimize(loss, start, jac=True, hessp=curvature, method="Newton-CG").x
    state[INTERCEPT] = mode[-1]
    table[slots, MEAN] = mode[:-1] * scales + table[slots, COUPLING] * mode[-1]


def scores_recipe() -> Recipe:
    """Recipe: write the score of each row, without the intercept, and its variance."""

    def scores(state: Floats, rows: Any, levels: Floats, variances: Floats) -> None:
        sparse_score_moments(state, as_arms(rows), levels, variances)

    signature = types.void(VECTOR, READ_ROWS, VECTOR, VECTOR)
    return Recipe(scores, signature, "scores of sparse rows", work=_work_of_rows)


def _work_of_rows(_state: Floats, rows: Any, *_rest: Any) -> float:
    return 16.0 * float(rows[1].size)
