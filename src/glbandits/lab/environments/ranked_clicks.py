"""Users who scan down a ranking and click: a simulated problem for `Bandit.rank`."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.errors import InvalidInput
from glbandits.lab.environments.rounds import Environment, stream

ATTRACTION, DEPTH = 20, 21
"""Random streams, which no environment uses for its rounds."""


@dataclass(frozen=True, eq=False)
class Visit:
    """A user who sees a ranking of some of the arms.

    Which arms would attract the user, and how far the user looks, do not depend on the ranking. Two policies on the
    same visits can therefore be compared pairwise.
    """

    arms: Floats
    """Features, (K, dim)."""
    probabilities: Floats
    """The probability that an arm attracts the user, (K,)."""
    examination: Floats
    """The probability that the user looks as far as each position, (k,)."""
    attracts: Floats
    """1 for each arm that attracts this user, otherwise 0, (K,)."""
    depth: int
    """The number of positions at which this user looks, if no click stops the user."""

    def rewards(self, shown: Ints) -> Floats:
        """Return 1 for each position with a click, for users who may click several times, (k,).

        These are the rewards for `Bandit.learn_ranking`.
        """
        rewards: Floats = self.attracts[shown] * (np.arange(len(shown)) < self.depth)
        return rewards

    def click(self, shown: Ints) -> int | None:
        """Return the position of the first click, for users who stop there: the cascade model. None if none clicks.

        This is the position for `Bandit.learn_click`.
        """
        clicked = np.flatnonzero(self.rewards(shown))
        return int(clicked[0]) if len(clicked) else None

    def best(self) -> Ints:
        """Return the best ranking: the most attractive arms, in order."""
        return np.argsort(-self.probabilities, kind="stable")[: len(self.examination)]

    def click_probability(self, shown: Ints) -> float:
        """Return the probability that a user who sees this ranking clicks."""
        attraction = self.probabilities[shown]
        without_click = np.cumprod(np.concatenate([[1.0], 1.0 - attraction[:-1]]))
        return float((self.examination[: len(attraction)] * without_click * attraction).sum())

    def regret(self, shown: Ints) -> float:
        """Return the click probability of the best ranking less that of this one."""
        return self.click_probability(self.best()) - self.click_probability(shown)


@dataclass(frozen=True)
class RankedClicks:
    """Users who scan down a ranking of the arms of a problem, and click what attracts them.

    An arm attracts a user with the probability that is its expected reward in the problem. The user looks at position
    j with probability examination[j], and looks at all positions above it first.

    Args:
        environment: a problem with expected rewards from 0 to 1, such as `Synthetic(arms=20)`.
        examination: for each position, the probability that a user without a click looks as far as this position. It
            never rises. Its length k is the number of arms in a ranking.

    >>> from glbandits.lab import Synthetic
    >>> problem, clicks = RankedClicks(Synthetic(dim=4, arms=8), examination=(1.0, 0.8, 0.5)), 0
    >>> for visit in problem.visits(horizon=100, seed=1):
    ...     clicks += visit.click(visit.best()) is not None
    >>> clicks
    75
    """

    environment: Environment
    examination: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        try:
            examination = np.asarray(self.examination, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"examination must be probabilities: {error}") from None
        is_valid = examination.ndim == 1 and examination.size > 0
        if not (is_valid and (np.diff(examination) <= 0).all() and 0 <= examination[-1] <= examination[0] <= 1):
            raise InvalidInput(f"examination must be probabilities that never rise; got {self.examination!r}")
        set_validated(self, examination=tuple(examination.tolist()))

    @property
    def dim(self) -> int:
        """The number of features of an arm."""
        return self.environment.dim

    def visits(self, horizon: int, seed: int) -> Iterator[Visit]:
        """Yield the users of one run."""
        examination, attraction, depths = np.array(self.examination), stream(seed, ATTRACTION), stream(seed, DEPTH)
        for chunk in self.environment.rounds(horizon, seed):
            if chunk.expected.min() < 0.0 or chunk.expected.max() > 1.0:
                raise InvalidInput(f"clicks need expected rewards from 0 to 1; got {self.environment!r}")
            for t, count in enumerate(chunk.counts):
                if count < len(examination):
                    raise InvalidInput(f"a ranking of {len(examination)} positions needs as many arms; got {count}")
                probabilities = chunk.expected[t, :count]
                attracts = (attraction.random(count) < probabilities).astype(np.float64)
                depth = int((depths.random() < examination).sum())
                yield Visit(chunk.arms[t, :count], probabilities, examination, attracts, depth)
