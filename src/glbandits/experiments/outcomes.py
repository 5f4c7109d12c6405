"""What policies did under a protocol: curves, pulls, seconds, and intervals of their means."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, stdtrit

from glbandits.experiments.experiment import Experiment
from glbandits.records import Floats, Ints

PAPER, FRESH = "paper", "fresh"
"""The names of the two protocols."""


@dataclass(frozen=True)
class Outcome:
    """What one policy did under one protocol."""

    label: str
    tried: int
    """Settings in its grid."""
    chosen: str
    """The setting that was played, in words."""
    seeds: tuple[int, ...]
    rounds: Ints
    regret: Floats
    """Cumulative regret, (seeds, points)."""
    pulls: Floats
    """Pulls of each arm by its index, (seeds, arms); ragged ends are zeros."""
    seconds: Floats
    """CPU seconds of the policy itself, (seeds,)."""
    grid_regret: Floats
    """Final regret of every setting in every repeat, (tried, repeats)."""
    is_extra: bool = False
    """Whether the paper does not have this policy."""

    @property
    def final(self) -> Floats:
        """Regret at the end, (seeds,)."""
        last: Floats = self.regret[:, -1]
        return last

    @property
    def mean(self) -> Floats:
        """Mean regret, (points,)."""
        mean: Floats = self.regret.mean(axis=0)
        return mean

    @property
    def half_width(self) -> Floats:
        """Half of a 95 % confidence interval of the mean, (points,); NaN for a single seed."""
        return half_width(self.regret)


@dataclass(frozen=True)
class ProtocolResult:
    """All policies under one protocol."""

    protocol: str
    outcomes: tuple[Outcome, ...]
    best_reward: Floats
    """Mean cumulative value of the best arms, (points,): reward is this less regret."""

    @property
    def compared(self) -> tuple[Outcome, ...]:
        """The outcomes without the extra policies."""
        return tuple(outcome for outcome in self.outcomes if not outcome.is_extra)

    @property
    def best(self) -> Outcome:
        """The outcome of least mean final regret."""
        return min(self.outcomes, key=lambda outcome: outcome.final.mean())


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment under one protocol or more."""

    experiment: Experiment
    protocols: tuple[ProtocolResult, ...]
    quick: bool
    """Whether the thin grid was used."""

    @property
    def simulated_data(self) -> bool:
        """Whether its data stand in for others; every picture must then say so."""
        return bool(getattr(self.experiment.environment, "simulated", False))

    def under(self, protocol: str) -> ProtocolResult | None:
        """The result under one protocol, if it was run."""
        return next((result for result in self.protocols if result.protocol == protocol), None)


def half_width(samples: Floats) -> Floats:
    """Half of a 95 % confidence interval of the mean over rows, by Student's t; NaN for a single row."""
    n = len(samples)
    if n == 1:
        return np.full(samples.shape[1], math.nan)
    width: Floats = stdtrit(n - 1, 0.975) * samples.std(axis=0, ddof=1) / math.sqrt(n)
    return width


def expected_best(grid_regret: Floats, size: int) -> float:
    """The mean over repeats of the least regret among `size` settings drawn at random from the grid.

    With the size of the whole grid this is the paper's protocol. With one size for all policies it is that protocol
    without the advantage of a larger grid.

    >>> round(expected_best(np.array([[1.0], [2.0], [3.0]]), 2), 6)  # pairs 12, 13 and 23
    1.333333
    """
    settings = len(grid_regret)
    size = min(size, settings)
    ordered = np.sort(grid_regret, axis=0)
    rank = np.arange(settings - size + 1)
    # The least of the subset is the one of this rank in C(settings - 1 - rank, size - 1) of C(settings, size) subsets.
    log_ways = _log_choose(settings - 1 - rank, size - 1) - _log_choose(np.array([settings]), size)
    weights = np.exp(log_ways)
    return float((weights @ ordered[: len(rank)]).mean())


def _log_choose(n: Ints, k: int) -> Floats:
    logs: Floats = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return logs
