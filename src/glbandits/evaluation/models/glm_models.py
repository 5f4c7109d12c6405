"""The generalized linear models of `GlmReward`: `DenseGlm`, and `SparseGlm` for sparse rows.

Both are posteriors of `Optimist`. Online learning adds the curvature of each reward at the mean of that moment. If
rewards are rare, the initial mean is far too high. The curvature is large there, so that the posterior becomes too
certain, and the predicted mean falls like 1 / sqrt(rows) instead of 1 / rows. So the first rows are stored, and
Newton's method finds the exact mode for all of them, and the curvature there. Later rows are learned online.
"""

from typing import Any, Literal

import numpy as np
from numba import types
from scipy.optimize import minimize
from scipy.sparse import csr_array

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import READ_ROWS, READ_VECTOR, VECTOR, jittable
from glbandits.compilation.recipe import Recipe
from glbandits.evaluation.logs.logged_data import LoggedData, chosen_rows
from glbandits.evaluation.logs.sparse_arms import SparseArms
from glbandits.maths.arm_rows import as_arms
from glbandits.maths.feature_table import EMPTY, HEADER
from glbandits.maths.links import LINKS, Link, LinkFunctions, link_reader, own_link
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK, block_matrix
from glbandits.maths.posteriors.covariance_factor import factor_of_inverse
from glbandits.maths.sparse_rows import SparseRows, joined_rows
from glbandits.policies import Optimist
from glbandits.policies.shared.posterior_state import (
    INTERCEPT,
    INTERCEPT_PRECISION,
    blocks_at,
    coupling_of,
    mean_of,
    prior_of,
)
from glbandits.policies.shared.sparse.posterior import COUPLING, MEAN, PRIOR, ROW, TABLE, sparse_score_moments

EXACT_ROWS = 65_536
"""Maximum number of dense rows that are stored for the exact fit."""
EXACT_PRODUCTS = 2**24
"""Maximum of stored dense rows x features^2, the cost of a Newton step."""
EXACT_NONZEROS = 2**21
"""Maximum number of nonzero features of sparse rows that are stored for the exact fit: 34 MB."""
GROWTH = 4
"""The stored rows are fitted again when their number has grown by this factor."""
Function = Literal["mean", "slope", "antiderivative"]


class _Glm:
    """A generalized linear model with an intercept: the posterior of `Optimist`.

    Args:
        link: link of the model.
        dim: number of features of a row.
        sparse: whether rows are sparse.
    """

    def __init__(self, link: Link, dim: int, *, sparse: bool) -> None:
        self._link, self._policy = link, Optimist(link=link)
        self._bandit = Bandit(self._policy, dim, seed=0, sparse=sparse)
        self._bandit.warns_of_outliers = False
        self._stored: list[tuple[Any, Floats]] = []
        self._rows, self._fitted_rows = 0, 0

    def finish(self) -> None:
        """Fit the stored rows a last time."""
        if self._stored and self._rows > self._fitted_rows:
            self._fit()

    def _fit(self) -> None:
        parts, rewards = zip(*self._stored, strict=True)
        join: Any = joined_rows if self._bandit.sparse else np.concatenate
        X, y = join(parts), np.concatenate(rewards)
        self._stored, self._fitted_rows = [(X, y)], self._rows
        intercept = score_of_mean(y, self._link), self._policy.intercept_precision(self._bandit.dim)
        state = self._bandit.state
        (set_sparse_mode if self._bandit.sparse else set_mode)(state, X, y, intercept, self._link)
        self._bandit.state = state


class DenseGlm(_Glm):
    """The model for dense rows. It learns online, in constant memory.

    `Optimist` estimates the scales of the features and of the prior. The intercept starts at the mean of the first
    rewards.
    """

    def __init__(self, link: Link, dim: int) -> None:
        super().__init__(link, dim, sparse=False)
        # Online learning is exact for the identity link. Several blocks of features have no common matrix to fit.
        online_only = link is LINKS["identity"] or dim > LARGEST_BLOCK
        self._max_stored = 0 if online_only else min(EXACT_ROWS, EXACT_PRODUCTS // dim**2)

    def learn(self, X: Floats, rewards: Floats) -> None:
        """Learn rows: features (rows, dim) and rewards (rows,)."""
        if not len(rewards):
            return
        if not self._rows:
            state = self._bandit.state
            state[INTERCEPT] = score_of_mean(rewards, self._link)
            self._bandit.state = state
        room = self._max_stored - self._rows
        if 0 < room < len(rewards):
            self._learn(X[:room], rewards[:room])
            self._learn(X[room:], rewards[room:])
        else:
            self._learn(X, rewards)

    def _learn(self, X: Floats, rewards: Floats) -> None:
        self._bandit.learn_batch(X, rewards)
        self._rows += len(rewards)
        if self._rows > self._max_stored:
            self._stored.clear()
            return
        self._stored.append((X, rewards))
        if self._rows >= GROWTH * self._fitted_rows:
            self._fit()

    @property
    def theta(self) -> Floats:
        """The coefficients followed by the intercept, (dim + 1,)."""
        state = self._bandit.state
        return np.append(mean_of(state, self._bandit.dim), state[INTERCEPT])


class SparseGlm(_Glm):
    """The model for sparse rows: one precision for each feature, without correlations.

    Memory grows with the number of features seen.
    """

    def __init__(self, link: Link, dim: int) -> None:
        super().__init__(link, dim, sparse=True)
        self._nonzeros = 0

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

    def predict(self, block: LoggedData) -> Floats:
        """Return the expected reward of each arm, (rows, max_arms), padded with 0."""
        assert isinstance(block.arms, SparseArms)
        rows, state = block.arms.every_arm(), self._bandit.state
        levels, variances = np.empty(rows.row_count), np.empty(rows.row_count)
        entry_point(scores_recipe).call(state, tuple(rows), levels, variances)
        expected = np.zeros((len(block), block.arms.max_arms))
        expected[block.arm_mask] = apply_link(self._link, "mean", levels + state[INTERCEPT])
        return expected


def score_of_mean(rewards: Floats, link: Link) -> float:
    """Return the score of the mean of these rewards and of one pseudo-reward.

    The pseudo-reward is the mean at score 0, so that the mean is never 0 or 1.
    """
    return link.inverse(float(rewards.sum() + link.mean(0.0)) / (len(rewards) + 1))


def set_mode(state: Floats, X: Floats, rewards: Floats, intercept: tuple[float, float], link: Link) -> None:
    """Set the mean and the precision of a state to the posterior mode and its curvature.

    Changes `state` in place.

    Args:
        state: state of `Optimist` with one block of features. Its prior of theta stays.
        X: features of all rows, (rows, dim).
        rewards: rewards of all rows, (rows,).
        intercept: mean and precision of the prior of the intercept.
        link: link of the model.
    """
    dim = X.shape[1]
    mean, prior = mean_of(state, dim), np.append(prior_of(state, dim), intercept[1])
    centre = np.append(np.zeros(dim), intercept[0])
    scales = 1.0 / np.sqrt(prior)  # in these units each prior variance is 1
    design = np.column_stack([X, np.ones(len(X))]) * scales

    def loss(theta: Floats) -> tuple[float, Floats]:
        scores, moved = design @ theta, theta - centre / scales
        value = apply_link(link, "antiderivative", scores).sum() - rewards @ scores + 0.5 * moved @ moved
        return float(value), design.T @ (apply_link(link, "mean", scores) - rewards) + moved

    def hessian(theta: Floats) -> Floats:
        slopes = apply_link(link, "slope", design @ theta)
        H: Floats = design.T @ (slopes[:, np.newaxis] * design) + np.eye(dim + 1)
        return H

    start = np.append(mean, state[INTERCEPT]) / scales
    mode: Floats = minimize(loss, start, jac=True, hess=hessian, method="trust-exact").x
    H = hessian(mode)
    g = np.linalg.solve(H[:dim, :dim], H[:dim, dim])
    block_matrix(state, blocks_at(dim))[:] = factor_of_inverse(H[:dim, :dim], scales[:dim])
    mean[:], coupling_of(state, dim)[:] = mode[:dim] * scales[:dim], g * scales[:dim] / scales[dim]
    state[INTERCEPT] = mode[dim] * scales[dim]
    state[INTERCEPT_PRECISION] = max(float(H[dim, dim] - H[dim, :dim] @ g) / scales[dim] ** 2, intercept[1])


def set_sparse_mode(
    state: Floats, rows: SparseRows, rewards: Floats, intercept: tuple[float, float], link: Link
) -> None:
    """Set the means of a state to the mode of the posterior given all rows.

    Changes `state` in place.

    Args:
        state: state of the sparse form of `Optimist`, which has learned these rows. Its prior and variances stay.
        rows: features.
        rewards: rewards of all rows.
        intercept: mean and precision of the prior of the intercept.
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
    precisions = np.append(np.ones(len(slots)), intercept[1])
    centre = np.zeros(shape[1])
    centre[-1] = intercept[0]

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


def apply_link(link: Link, function: Function, scores: Floats) -> Floats:
    """Return the mean, slope or antiderivative of each score, in a new array."""
    values, packed = scores.copy(order="C"), np.array(link.packed)
    flat = values.reshape(-1)
    for part, replace in entry_point(in_place_recipe, own_link(link), function).pieces(flat.size):
        replace(packed, flat[part])
    return values


def in_place_recipe(own: Link | None, name: Function) -> Recipe:
    """Recipe of a function that replaces each score by its mean, slope or antiderivative under the packed link."""
    link_of, function = link_reader(own), _FUNCTIONS[name]

    def replace(packed: Floats, scores: Floats) -> None:
        link = link_of(packed)
        for index in range(scores.shape[0]):
            scores[index] = function(link, scores[index])

    named = f"{name}, {own.name}" if own else name
    return Recipe(replace, types.void(READ_VECTOR, VECTOR), named, check_bounds=own is not None)


@jittable
def _mean(link: LinkFunctions, score: float) -> float:
    return link.mean(score)


@jittable
def _slope(link: LinkFunctions, score: float) -> float:
    return link.slope(score)


@jittable
def _antiderivative(link: LinkFunctions, score: float) -> float:
    return link.antiderivative(score)


_FUNCTIONS: dict[Function, Any] = {"mean": _mean, "slope": _slope, "antiderivative": _antiderivative}
