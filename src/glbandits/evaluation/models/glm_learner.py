"""GlmLearner: the generalized linear model behind `GlmReward`, exact for the first rows and one pass from then on."""

import numpy as np

from glbandits.bandit import Bandit
from glbandits.evaluation.models.exact_fit import refit
from glbandits.maths.links import LINKS, Link
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK
from glbandits.policies import Optimist
from glbandits.policy_bases.self_scaling_posterior import INTERCEPT, mean_of
from glbandits.records import Floats

EXACT_ROWS = 65_536
"""Rows that are held, at most, to be fitted exactly."""
EXACT_PRODUCTS = 2**24
"""Products of two features of these rows, at most: the work of a step of Newton's method."""
GROWTH = 4
"""Held rows are fitted again when there are this many times as many as at the last fit."""


class GlmLearner:
    """A generalized linear model with an intercept, which learns rows as they come, in constant memory.

    It is the posterior of `Optimist`, which finds the units of the features and the scale of the prior. One pass makes
    it too certain of what it predicted early, so that at click rates below 1 % predictions stay far too large. Two
    things prevent that: the intercept begins at the mean of the first rewards, and the first rows are held and fitted
    exactly, by Newton's method.

    Args:
        link: of the model.
        dim: features of a row.
    """

    def __init__(self, link: Link, dim: int) -> None:
        self._link, self._policy = link, Optimist(link=link)
        self._bandit = Bandit(self._policy, dim, seed=0)
        # Under the identity link one pass is exact. With several blocks of features there is no matrix to fit.
        one_pass = link is LINKS["identity"] or dim > LARGEST_BLOCK
        self._most_held = 0 if one_pass else min(EXACT_ROWS, EXACT_PRODUCTS // dim**2)
        self._held: list[tuple[Floats, Floats]] = []
        self._rows, self._fitted_rows = 0, 0

    def learn(self, X: Floats, rewards: Floats) -> None:
        """Learn rows: features (rows, dim) and their rewards."""
        if not len(rewards):
            return
        if not self._rows:
            self._set_intercept(rewards)
        room = self._most_held - self._rows
        if 0 < room < len(rewards):
            self._learn(X[:room], rewards[:room])
            self._learn(X[room:], rewards[room:])
        else:
            self._learn(X, rewards)

    def _learn(self, X: Floats, rewards: Floats) -> None:
        self._bandit.learn_batch(X, rewards)
        self._rows += len(rewards)
        if self._rows > self._most_held:
            self._held.clear()
            return
        self._held.append((X, rewards))
        if self._rows >= GROWTH * self._fitted_rows:
            self._fit()

    def finish(self) -> None:
        """Fit the rows that are held once more."""
        if self._held and self._rows > self._fitted_rows:
            self._fit()

    @property
    def theta(self) -> Floats:
        """The coefficients and then the intercept, (dim + 1,)."""
        state = self._bandit.state
        return np.append(mean_of(state, self._bandit.dim), state[INTERCEPT])

    def _set_intercept(self, rewards: Floats) -> None:
        state = self._bandit.state
        state[INTERCEPT] = self._score_of_mean(rewards)
        self._bandit.state = state

    def _fit(self) -> None:
        X, rewards = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        self._held, self._fitted_rows = [(X, rewards)], self._rows
        intercept = self._score_of_mean(rewards), self._policy.intercept_precision(self._bandit.dim)
        state = self._bandit.state
        refit(state, X, rewards, intercept, self._link)
        self._bandit.state = state

    def _score_of_mean(self, rewards: Floats) -> float:
        """Of these rewards and one more, the expected one at the score 0: so the mean is never 0 or 1."""
        return self._link.inverse(float(rewards.sum() + self._link.mean(0.0)) / (len(rewards) + 1))
