"""The quality of each model for a prompt, learned from judged answers by one bandit."""

from typing import Any, Literal

import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS
from glbandits.policies import Optimist

CHUNK = 256
"""The number of prompts of a benchmark that are learned at once."""
BISECTIONS = 50


class ModelQuality:
    """Predicts quality as b + x'theta, with a theta for each model: its block of the bandit's features.

    Args:
        room: the largest number of models.
        dim: the number of features of a prompt, with the constant.
        half_life: as for `Optimist`.
        seed: of the bandit.
    """

    def __init__(self, room: int, dim: int, half_life: float | Literal["auto"] | None, seed: int | None) -> None:
        self.room, self.dim = room, dim
        self.bandit = Bandit(Optimist(link="identity", half_life=half_life), room * dim, seed)
        self.answers = 0
        """The number of answers learned."""

    def rows(self, models: Ints, X: Floats) -> Floats:
        """Return the features of the bandit for some models, each for the same prompt or for its own row of X."""
        rows = np.zeros((len(models), self.room, self.dim))
        rows[np.arange(len(models)), models] = X
        return rows.reshape(len(models), self.room * self.dim)

    def learn(self, model: int, x: Floats, quality: float) -> None:
        """Learn the quality of an answer to a prompt with features x, (dim,)."""
        self.bandit.learn(self.rows(np.array([model]), x)[0], quality)
        self.answers += 1

    def learn_benchmark(self, models: Ints, X: Floats, quality: Floats) -> None:
        """Learn the quality of some models for each prompt, (n, models), where it is not NaN."""
        for start in range(0, len(X), CHUNK):
            prompts, columns = np.nonzero(~np.isnan(quality[start : start + CHUNK]))
            rows = self.rows(models[columns], X[start + prompts])
            self.bandit.learn_batch(rows, quality[start + prompts, columns])
            self.answers += len(prompts)

    def probabilities(self, models: Ints, x: Floats, prices: Floats | None) -> Floats:
        """Return the probability with which each of some models has the largest quality - price, with its bonus."""
        payoffs: Any = {} if prices is None else {"values": np.ones(len(models)), "costs": prices}
        exact = self.bandit.exact_probabilities(self.rows(models, x), **payoffs)
        assert exact is not None  # Optimist has exact probabilities
        return exact

    def predict(self, models: Ints, x: Floats) -> Floats:
        """Return the expected quality of some models."""
        return self.bandit.predict(self.rows(models, x))

    def widths(self, models: Ints, x: Floats, level: float) -> Floats:
        """Return the widths of intervals of the expected quality of some models."""
        found = self.bandit.predict(self.rows(models, x), interval=level)
        return np.asarray(found.high - found.low)

    def price_for(self, limit: float, models: Ints, X: Floats, costs: Floats) -> float:
        """Return the lowest price at which the best models for these prompts cost at most the limit on average.

        If not even the cheapest models do, it is the lowest price at which these are the best ones.

        X has the features of the prompts, (n, dim), and `costs` the cost of each prompt for each model, (n, models).
        """
        estimate = self.bandit.coefficients()
        assert estimate is not None  # Optimist has an estimate
        quality = X @ estimate.theta.reshape(self.room, self.dim)[models].T
        least = max(limit, float(costs.min(axis=1).mean()) * (1.0 + 1e-9))
        low, high = 0.0, 1.0  # share / (1 - share) / least is the price
        for _ in range(BISECTIONS):
            share = (low + high) / 2.0
            best = (quality - share / (1.0 - share) / least * costs).argmax(axis=1)
            is_too_low = costs[np.arange(len(X)), best].mean() > least
            low, high = (share, high) if is_too_low else (low, share)
        return min(high / max(1.0 - high, 1e-15) / least, MAX_ABS)
