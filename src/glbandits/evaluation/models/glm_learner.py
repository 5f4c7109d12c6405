"""GlmLearner: the generalized linear model of `GlmReward`.

The fit is exact for the first rows, then online.
"""

import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats
from glbandits.evaluation.models.exact_fit import refit
from glbandits.maths.links import LINKS, Link
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK
from glbandits.policies import Optimist
from glbandits.policies.shared.posterior_state import INTERCEPT, mean_of

EXACT_ROWS = 65_536
"""Maximum number of rows that are stored for the exact fit."""
EXACT_PRODUCTS = 2**24
"""Maximum of stored rows x features^2, the cost of a Newton step."""
GROWTH = 4
"""The stored rows are fitted again when their number has grown by this factor."""


class GlmLearner:
    """A generalized linear model with an intercept that learns online, in constant memory.

    The model is the posterior of `Optimist`, which estimates the scales of the features and of the prior. Online
    learning alone makes it too certain of its first predictions: at click rates below 1 % predictions stay far too
    large. Two measures prevent that. The intercept starts at the mean of the first rewards, and the first rows are
    stored and fitted exactly, by Newton's method.

    Args:
        link: link of the model.
        dim: number of features of a row.
    """

    def __init__(self, link: Link, dim: int) -> None:
        self._link, self._policy = link, Optimist(link=link)
        self._bandit = Bandit(self._policy, dim, seed=0)
        self._bandit.warns_of_outliers = False
        # Online learning is exact for the identity link. Several blocks of features have no common matrix to fit.
        online_only = link is LINKS["identity"] or dim > LARGEST_BLOCK
        self._max_stored = 0 if online_only else min(EXACT_ROWS, EXACT_PRODUCTS // dim**2)
        self._stored: list[tuple[Floats, Floats]] = []
        self._rows, self._fitted_rows = 0, 0

    def learn(self, X: Floats, rewards: Floats) -> None:
        """Learn rows: features (rows, dim) and rewards (rows,)."""
        if not len(rewards):
            return
        if not self._rows:
            self._set_intercept(rewards)
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

    def finish(self) -> None:
        """Fit the stored rows a last time."""
        if self._stored and self._rows > self._fitted_rows:
            self._fit()

    @property
    def theta(self) -> Floats:
        """The coefficients followed by the intercept, (dim + 1,)."""
        state = self._bandit.state
        return np.append(mean_of(state, self._bandit.dim), state[INTERCEPT])

    def _set_intercept(self, rewards: Floats) -> None:
        state = self._bandit.state
        state[INTERCEPT] = self._score_of_mean(rewards)
        self._bandit.state = state

    def _fit(self) -> None:
        X, rewards = (np.concatenate(parts) for parts in zip(*self._stored, strict=True))
        self._stored, self._fitted_rows = [(X, rewards)], self._rows
        intercept = self._score_of_mean(rewards), self._policy.intercept_precision(self._bandit.dim)
        state = self._bandit.state
        refit(state, X, rewards, intercept, self._link)
        self._bandit.state = state

    def _score_of_mean(self, rewards: Floats) -> float:
        """Score of the mean of these rewards and of one pseudo-reward.

        The pseudo-reward is the mean at score 0, so that the mean is never 0 or 1.
        """
        return self._link.inverse(float(rewards.sum() + self._link.mean(0.0)) / (len(rewards) + 1))
