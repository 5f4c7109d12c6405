"""What came of a problem, and how regrets are compared."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.regret.contestants import SUBJECT
from glbandits.experiments.outcomes import half_width
from glbandits.records import Floats

RESAMPLES = 10_000
"""Of the bootstrap."""


@dataclass(frozen=True)
class Player:
    """A policy that played."""

    label: str
    chosen: str
    """Its setting, in words."""
    tried: int
    """Settings among which it was chosen."""
    tuning: int
    """Seeds on which it was chosen."""
    seeds: tuple[int, ...]
    final: Floats
    """Regret at the end, (seeds,)."""
    seconds: float
    """CPU seconds of a run, on average."""

    @property
    def mean(self) -> float:
        """Mean regret."""
        return float(self.final.mean())

    @property
    def half_width(self) -> float:
        """Half of a 95 % interval of the mean."""
        return float(half_width(self.final[:, np.newaxis])[0])

    def beside(self, other: "Player") -> tuple[Floats, Floats]:
        """The regrets of both, seed by seed, on the seeds that both played."""
        both = sorted(set(self.seeds) & set(other.seeds))
        mine, theirs = (dict(zip(player.seeds, player.final, strict=True)) for player in (self, other))
        return np.array([mine[seed] for seed in both]), np.array([theirs[seed] for seed in both])

    def over(self, other: "Player") -> float:
        """The ratio of the mean regrets on the seeds that both played."""
        mine, theirs = self.beside(other)
        return float(mine.mean() / theirs.mean())


@dataclass(frozen=True)
class ProblemResult:
    """All policies on one problem.

    Some play fewer seeds, and seeds differ in how hard they are. So every policy is first compared with the subject on
    the seeds that both played, and policies with each other by these ratios.
    """

    name: str
    words: str
    horizon: int
    dim: int
    players: tuple[Player, ...]
    absent: tuple[tuple[str, str], ...]
    """Who did not play, and why."""

    @property
    def subject(self) -> Player:
        """The policy on trial."""
        return next(player for player in self.players if player.label == SUBJECT)

    @cached_property
    def best(self) -> Player:
        """The best of the others, by the fresh seeds themselves: a hard mark, since some luck is picked with it."""
        others = [player for player in self.players if player.label != SUBJECT]
        return min(others, key=lambda player: player.over(self.subject))

    @property
    def rank(self) -> int:
        """The place of the subject among all: 1 is the best."""
        return 1 + sum(player.over(self.subject) < 1.0 for player in self.players)

    def relative(self, player: Player) -> float:
        """Regret in units of the best of the others."""
        return player.over(self.subject) / self.best.over(self.subject)

    @cached_property
    def resampled(self) -> Floats:
        """The subject's relative regret, in as many worlds as there are resamples of the seeds: (resamples,)."""
        mine, theirs = self.subject.beside(self.best)
        drawn = np.random.default_rng(0).integers(0, len(mine), (RESAMPLES, len(mine)))
        ratios: Floats = mine[drawn].mean(axis=1) / theirs[drawn].mean(axis=1)
        return ratios

    @property
    def ratio(self) -> tuple[float, float, float]:
        """The subject's relative regret, and a bootstrap 95 % interval of it, paired by seed."""
        low, high = np.quantile(self.resampled, [0.025, 0.975])
        return self.relative(self.subject), float(low), float(high)
