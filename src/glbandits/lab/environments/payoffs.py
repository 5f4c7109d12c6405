"""Environments with payoffs: known values and costs of the arms of any problem, and a shop that sets prices."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glbandits.common.arrays import Floats, set_validated
from glbandits.common.errors import InvalidInput
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import (
    Environment,
    Rounds,
    chunk_lengths,
    has_payoffs,
    is_sparse,
    stream,
)

CUSTOMERS, NOISE = 0, 1
"""Parts of the shop with random streams of their own."""
DEMAND = ((3.0, 0.40), (4.0, 0.30), (4.5, 0.22))
"""Level and slope of the demand of students, families and businesses."""
PRICES = np.arange(4.0, 24.0, 2.0)


@dataclass(frozen=True)
class WithPayoffs:
    """A problem whose arms have known values and costs: the payoff of arm a is values[a] * reward - costs[a].

    Policies choose by payoffs and learn the plain reward. Regret is in units of the payoff.

    Args:
        environment: the problem. All of its rounds have the same number of arms.
        values: what a reward of 1 is worth for each arm, at least 0.
        costs: the cost of pulling each arm; by default 0.

    >>> from glbandits.lab import Synthetic
    >>> problem = WithPayoffs(Synthetic(arms=3), values=[1.0, 2.0, 5.0], costs=[0.0, 0.1, 2.0])
    >>> [chunk.costs.tolist() for chunk in problem.rounds(horizon=2, seed=1)]
    [[[0.0, 0.1, 2.0], [0.0, 0.1, 2.0]]]
    """

    environment: Environment
    values: ArrayLike
    costs: ArrayLike = 0.0
    has_payoffs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if has_payoffs(self.environment):
            raise InvalidInput(f"environment has payoffs of its own; got {self.environment!r}")
        try:
            values = np.asarray(self.values, dtype=np.float64)
            costs = np.broadcast_to(np.asarray(self.costs, dtype=np.float64), values.shape)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"values and costs must be numbers, one for each arm: {error}") from None
        if values.ndim != 1 or not np.isfinite([values, costs]).all() or (values < 0.0).any():
            raise InvalidInput(f"values must be finite numbers of at least 0, costs finite; got {values}, {costs}")
        set_validated(self, values=tuple(values.tolist()), costs=tuple(costs.tolist()))

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return self.environment.dim

    @property
    def noise(self) -> Noise:
        """The distribution of a reward, given its expectation."""
        return self.environment.noise

    @property
    def sparse(self) -> bool:
        """Whether arms are sparse rows."""
        return is_sparse(self.environment)

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the rounds of the problem, with values, costs and payoffs."""
        for chunk in self.environment.rounds(horizon, seed):
            yield self._with_payoffs(chunk)

    def _with_payoffs(self, chunk: Rounds) -> Rounds:
        shape, given = chunk.expected.shape, np.array([self.values, self.costs])
        if given.shape[1] != shape[1]:
            raise InvalidInput(f"values must have {shape[1]} numbers, one for each arm; got {given.shape[1]}")
        values, costs = (np.broadcast_to(row, shape) for row in given)
        return replace(chunk, values=values, costs=costs, payoffs=values * chunk.payoffs - costs)


@dataclass(frozen=True)
class Prices:
    """The shop of the tutorial on prices: each customer sees one of ten prices, and buys or not.

    The reward is 1 for a sale, and the value of an arm is its price, so the payoff is the revenue. Three kinds of
    customers, equally frequent, buy with a logistic probability that falls with the price. Each kind has two features
    of its own: a constant and the centred price. Only customers and sales depend on the seed.

    >>> problem = Prices()
    >>> [(chunk.arms.shape, chunk.values[0].max()) for chunk in problem.rounds(horizon=8, seed=1)]
    [((8, 10, 6), np.float64(22.0))]
    """

    has_payoffs: ClassVar[bool] = True
    dim: ClassVar[int] = 6
    noise: ClassVar[Noise] = NOISES["bernoulli"]
    """Sale or no sale."""

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        """Yield the customers of one run, in chunks of at most 4 MB of features."""
        line = np.stack([np.ones(len(PRICES)), (PRICES - 13.0) / 6.0], axis=1)
        arms_of_kind = np.array([np.kron(block, line) for block in np.eye(len(DEMAND))])
        level, slope = np.array(DEMAND).T[..., np.newaxis]
        sale_of_kind: Floats = 1.0 / (1.0 + np.exp(slope * PRICES - level))
        customers, noises = stream(seed, CUSTOMERS), stream(seed, NOISE)
        for length in chunk_lengths(horizon, len(PRICES) * (self.dim + 3)):
            kinds = customers.integers(0, len(DEMAND), length)
            sales = sale_of_kind[kinds]
            yield Rounds(
                arms=arms_of_kind[kinds],
                counts=np.full(length, len(PRICES)),
                expected=sales,
                noise=self.noise.draw(noises, length),
                payoffs=PRICES * sales,
                values=np.tile(PRICES, (length, 1)),
            )
