"""A problem with hashed features: each arm has a few dozen of a million features."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput, check_int
from glbandits.lab.environments.noise import NOISES, Noise
from glbandits.lab.environments.rounds import SparseRounds, chunk_lengths, stream
from glbandits.lab.environments.synthetic import NOISE, THETA
from glbandits.maths.sparse_rows import SparseRows

CONTEXT_SHARE = 0.3
"""The share of context features among the features of an arm, and among all names."""
FLATTENED_ABOVE = 50
"""Arms with more features than this have a flatter power law, so that no name is more frequent than a group."""
CONTEXT, ARM, INDICES = 5, 6, 7
"""The random streams of context features, of arm features, and of the indices of names."""


class Vocabulary:
    """Names with power law frequencies, divided into groups of equal total frequency.

    An arm has one name of each group, so the names of an arm are distinct.
    """

    def __init__(self, names: int, groups: int, offset: float) -> None:
        weights = 1.0 / (offset + np.arange(names)) ** 1.1
        self._cumulated = np.cumsum(weights / weights.sum())
        ends = np.searchsorted(self._cumulated, np.arange(1, groups + 1) / groups - 1e-12)
        bounds = np.concatenate([[0.0], self._cumulated[np.maximum.accumulate(ends)]])
        self._low, self._size = bounds[:-1], np.diff(bounds)

    def draw(self, rng: np.random.Generator, *shape: int) -> Ints:
        """Draw the names of an array of arms, (*shape, groups)."""
        quantiles = self._low + self._size * rng.random((*shape, len(self._low)))
        return np.searchsorted(self._cumulated, quantiles)


@dataclass(frozen=True, kw_only=True)
class SparseHashed:
    """Clicks on arms with named features, which are hashed to d indices.

    The frequencies of the names follow a power law. About a third of the features of an arm are context features, which
    all arms of the round share. The expected reward is logistic with intercept -1. Each seed draws a new theta*. For a
    given seed only the indices depend on d, so regret can be compared across d. Policies run in their sparse form.

    Args:
        dim: d.
        arms: K, the number of arms in a round.
        nonzeros: the number of nonzero features of an arm.
        names: the number of features that occur, at most `dim`.

    >>> problem = SparseHashed(dim=2**22, arms=3, nonzeros=10)
    >>> [chunk.arms.row_count for chunk in problem.rounds(horizon=4, seed=1)]
    [12]
    """

    dim: int = 2**20
    arms: int = 20
    nonzeros: int = 50
    names: int = 5000
    sparse: ClassVar[bool] = True
    noise: ClassVar[Noise] = NOISES["bernoulli"]
    """Click or no click."""

    def __post_init__(self) -> None:
        check_int("dim", self.dim, at_least=1)
        check_int("arms", self.arms, at_least=1)
        check_int("nonzeros", self.nonzeros, at_least=4)
        if not 20 * self.nonzeros <= check_int("names", self.names, at_least=1) <= self.dim:
            raise InvalidInput(
                f"names must be 20 times nonzeros to dim, {20 * self.nonzeros} to {self.dim}; got {self.names}"
            )

    def theta_star(self, seed: int) -> Floats:
        """The true coefficient of each name, (names,)."""
        theta: Floats = stream(seed, THETA).normal(size=self.names) * np.sqrt(2.0 / self.nonzeros)
        return theta

    def indices(self, seed: int) -> Ints:
        """The feature index of each name, (names,). All are different."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(INDICES, self.dim)))
        return rng.choice(self.dim, self.names, replace=False)

    def rounds(self, horizon: int, seed: int) -> Iterator[SparseRounds]:
        """Yield the rounds of one run, in chunks of at most 8 MB of features."""
        theta, indices = self.theta_star(seed), self.indices(seed)
        context_names, shared = int(CONTEXT_SHARE * self.names), int(CONTEXT_SHARE * self.nonzeros)
        offset = 10.0 * max(self.nonzeros / FLATTENED_ABOVE, 1.0) ** 2
        of_context = Vocabulary(context_names, shared, offset)
        of_arms = Vocabulary(self.names - context_names, self.nonzeros - shared, offset)
        contexts, arms, noises = (stream(seed, part) for part in (CONTEXT, ARM, NOISE))
        for length in chunk_lengths(horizon, self.arms * self.nonzeros):
            repeated = np.repeat(of_context.draw(contexts, length, 1), self.arms, axis=1)
            names = np.concatenate([repeated, of_arms.draw(arms, length, self.arms) + context_names], axis=2)
            expected = 1.0 / (1.0 + np.exp(1.0 - theta[names].sum(axis=2)))
            features = np.sort(indices[names], axis=2).reshape(-1)
            yield SparseRounds(
                arms=SparseRows(np.arange(0, features.size + 1, self.nonzeros), features, np.ones(features.size)),
                counts=np.full(length, self.arms),
                expected=expected,
                noise=self.noise.draw(noises, length),
                dim=self.dim,
            )
