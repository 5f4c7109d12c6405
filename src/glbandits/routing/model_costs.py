"""The expected cost of a prompt for each model, learned from observed costs."""

from collections.abc import Sequence

import numpy as np

from glbandits.bandit import Bandit
from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS
from glbandits.policies import OnlineLaplace

PRIOR_COUNT = 20
"""The declared cost of a model counts as the cost of this many prompts."""
PRIOR_PRECISION = 1.0
"""The precision of the prior of the coefficients, on a logarithmic scale."""
LARGEST_RATIO = 1000.0
"""Costs are learned and predicted as at most this many times the declared cost."""


class ModelCosts:
    """Predicts costs as the declared cost of a model times exp(x'theta), with a theta for each model.

    What is learned is the ratio of observed and declared cost: mostly how many tokens a prompt needs. So a change of
    prices, which changes the declared cost, changes all predictions at once. Models are numbered from 0, in the order
    in which they were added. Not thread-safe.

    Args:
        dim: the number of features of a prompt, with a constant 1.

    >>> import numpy as np
    >>> costs = ModelCosts(dim=2)
    >>> costs.add(0.03, typical=np.array([1.0, 0.0]))
    >>> costs.add(0.9, typical=np.array([1.0, 0.0]))
    >>> X = np.array([[1.0, 1.0], [1.0, -1.0]])
    >>> for _ in range(50):
    ...     costs.learn(1, X, np.array([1.2, 0.6]))
    >>> costs.predict(X).round(2)
    array([[0.03, 1.21],
           [0.03, 0.61]])
    """

    def __init__(self, dim: int) -> None:
        self.declared = np.empty(0)
        """What a typical prompt costs, for each model."""
        self.bandits: list[Bandit] = []
        """The estimate of theta, for each model."""
        self._theta = np.empty((0, dim))

    def add(self, cost: float, typical: Floats) -> None:
        """Add a model with the expected cost of a prompt that has the features `typical`, (dim,)."""
        self.declared = np.append(self.declared, cost)
        self.bandits.append(Bandit(OnlineLaplace(link="log", prior_precision=PRIOR_PRECISION), len(typical), seed=0))
        self._theta = np.vstack([self._theta, np.zeros(len(typical))])
        self.learn(len(self.bandits) - 1, np.tile(typical, (PRIOR_COUNT, 1)), np.full(PRIOR_COUNT, cost))

    def restore(self, bandits: Sequence[Bandit]) -> None:
        """Replace what was learned of each model."""
        self.bandits = list(bandits)
        for model in range(len(bandits)):
            self._refresh(model)

    def learn(self, model: int, X: Floats, costs: Floats) -> None:
        """Learn the observed costs of prompts with features X, (n, dim)."""
        declared = self.declared[model]
        self.bandits[model].learn_batch(X, np.minimum(costs, LARGEST_RATIO * declared) / declared)
        self._refresh(model)

    def predict(self, x: Floats) -> Floats:
        """Return the expected cost of prompts with features x, (dim,) or (n, dim), for each model: (..., models)."""
        ratios = np.exp(np.minimum(x @ self._theta.T, np.log(LARGEST_RATIO)))
        return np.minimum(self.declared * ratios, MAX_ABS)

    def _refresh(self, model: int) -> None:
        estimate = self.bandits[model].coefficients()
        if estimate is not None:
            self._theta[model] = estimate.theta
