"""Hashed names: a problem with a few dozen features set, out of a million that exist."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.environments.noise import NOISES, Noise
from glbandits.environments.sparse_rounds import SparseRounds
from glbandits.environments.synthetic import CHUNK_SIZE, NOISE, ROUND_OVERHEAD, THETA
from glbandits.errors import InvalidInput, check_int
from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats, Ints

CONTEXT_SHARE = 0.3
"""The share of an arm's features, and of the names, that belong to the context."""
USUAL = 50
"""Features of an arm up to which the power law needs no flattening."""
CONTEXT, OWN, INDICES = 5, 6, 7
"""The streams that draw names of the context, names of arms, and the indices of names."""


class Vocabulary:
    """Names in groups of equal frequency, with a power law within and across them. An arm has one name of each group.

    So the names of an arm are distinct.
    """

    def __init__(self, names: int, groups: int, offset: float) -> None:
        weights = 1.0 / (offset + np.arange(names)) ** 1.1
        self._cumulated = np.cumsum(weights / weights.sum())
        ends = np.searchsorted(self._cumulated, np.arange(1, groups + 1) / groups - 1e-12)
        bounds = np.concatenate([[0.0], self._cumulated[np.maximum.accumulate(ends)]])
        self._low, self._size = bounds[:-1], np.diff(bounds)

    def draw(self, rng: np.random.Generator, *shape: int) -> Ints:
        """Names of so many arms, (*shape, groups)."""
        numbers = self._low + self._size * rng.random((*shape, len(self._low)))
        return np.searchsorted(self._cumulated, numbers)


@dataclass(frozen=True, kw_only=True)
class SparseHashed:
    """Clicks on arms with named features, whose frequencies follow a power law and whose names are hashed to d indices.

    A third of the features of an arm belong to the context, and are those of all arms of the round. The expected reward
    is logistic with the intercept -1; each seed draws a new theta*. For one seed only the indices depend on d, so
    regret can be compared across d. Policies play in their sparse form.

    Args:
        dim: d.
        arms: K, the number of arms in a round.
        nonzeros: features of an arm that are set.
        names: features that occur, at most `dim`.

    >>> problem = SparseHashed(dim=2**22, arms=3, nonzeros=10)
    >>> [piece.arms.row_count for piece in problem.rounds(horizon=4, seed=1)]
    [12]
    """

    dim: int = 2**20
    arms: int = 20
    nonzeros: int = 50
    names: int = 5000
    sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_int("dim", self.dim, at_least=1)
        check_int("arms", self.arms, at_least=1)
        check_int("nonzeros", self.nonzeros, at_least=4)
        if not 20 * self.nonzeros <= check_int("names", self.names, at_least=1) <= self.dim:
            raise InvalidInput(
                f"names must be 20 times nonzeros to dim, {20 * self.nonzeros} to {self.dim}; got {self.names}"
            )

    @property
    def noise(self) -> Noise:
        """Bernoulli."""
        return NOISES["bernoulli"]

    def theta_star(self, seed: int) -> Floats:
        """The true coefficient of each name, (names,)."""
        theta: Floats = _stream(seed, THETA).normal(size=self.names) * np.sqrt(2.0 / self.nonzeros)
        return theta

    def indices(self, seed: int) -> Ints:
        """The feature of each name, (names,): all are different."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(INDICES, self.dim)))
        return rng.choice(self.dim, self.names, replace=False)

    def rounds(self, horizon: int, seed: int) -> Iterator[SparseRounds]:
        """The rounds of one run, in pieces of at most 8 MB of features."""
        theta, indices = self.theta_star(seed), self.indices(seed)
        first_own, shared = int(CONTEXT_SHARE * self.names), int(CONTEXT_SHARE * self.nonzeros)
        offset = 10.0 * max(self.nonzeros / USUAL, 1.0) ** 2  # so that no name is more frequent than a group
        of_context = Vocabulary(first_own, shared, offset)
        of_arms = Vocabulary(self.names - first_own, self.nonzeros - shared, offset)
        contexts, own, noises = (_stream(seed, part) for part in (CONTEXT, OWN, NOISE))
        longest = max(1, CHUNK_SIZE // (self.arms * self.nonzeros + ROUND_OVERHEAD))
        for start in range(0, horizon, longest):
            length = min(longest, horizon - start)
            repeated = np.repeat(of_context.draw(contexts, length, 1), self.arms, axis=1)
            names = np.concatenate([repeated, of_arms.draw(own, length, self.arms) + first_own], axis=2)
            expected = 1.0 / (1.0 + np.exp(1.0 - theta[names].sum(axis=2)))
            features = np.sort(indices[names], axis=2).reshape(-1)
            yield SparseRounds(
                arms=SparseRows(np.arange(0, features.size + 1, self.nonzeros), features, np.ones(features.size)),
                counts=np.full(length, self.arms),
                expected=expected,
                noise=self.noise.draw(noises, length),
                values=expected,
                dim=self.dim,
            )


def _stream(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))
