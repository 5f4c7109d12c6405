"""Results of an experiment, with all of its runs.

An `Outcome` has the runs of one policy under one protocol, a `ProtocolResult` the outcomes of all policies, and an
`ExperimentResult` the results under one protocol or both. `summary` reduces these to numbers for a JSON file.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, stdtrit

from glbandits.common.arrays import Floats, Ints
from glbandits.lab.experiments.experiment import Experiment

PAPER, FRESH = "paper", "fresh"
"""The names of the two protocols."""
ORDINALS = ("best arm", "2nd best", "3rd best")


@dataclass(frozen=True)
class Outcome:
    """The runs of one policy under one protocol."""

    label: str
    tried: int
    """Number of settings in the policy's grid."""
    chosen: str
    """Description of the setting that was played."""
    seeds: tuple[int, ...]
    rounds: Ints
    regret: Floats
    """Cumulative regret, (seeds, points)."""
    pulls: Floats
    """Pulls of each arm by its index, (seeds, arms), padded with zeros."""
    seconds: Floats
    """CPU seconds of the policy, (seeds,)."""
    grid_regret: Floats
    """Final regret of every setting in every repeat, (tried, repeats)."""
    is_extra: bool = False
    """Whether the policy is not in the paper."""

    @property
    def final(self) -> Floats:
        """Final regret, (seeds,)."""
        last: Floats = self.regret[:, -1]
        return last

    @property
    def mean(self) -> Floats:
        """Mean regret, (points,)."""
        mean: Floats = self.regret.mean(axis=0)
        return mean

    @property
    def half_width(self) -> Floats:
        """Half-width of a 95 % confidence interval of the mean, (points,); NaN for a single seed."""
        return half_width(self.regret)


@dataclass(frozen=True)
class ProtocolResult:
    """All policies under one protocol."""

    protocol: str
    outcomes: tuple[Outcome, ...]
    best_reward: Floats
    """Mean cumulative value of the best arms, (points,): reward is this minus regret."""

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
        """Whether the data are simulated in place of real ones. Every figure must then say so."""
        return bool(getattr(self.experiment.environment, "simulated", False))

    def under(self, protocol: str) -> ProtocolResult | None:
        """Return the result under a protocol; None if it was not run."""
        return next((result for result in self.protocols if result.protocol == protocol), None)


@dataclass(frozen=True)
class BestPulls:
    """Median pulls of the best arms over seeds."""

    arms: tuple[str, ...]
    """Descriptions of the arms, the best first."""
    medians: dict[str, Floats]
    """By label of the policy, (arms,)."""


def half_width(samples: Floats, comparisons: int = 1) -> Floats:
    """Return the half-width of a 95 % interval (Student's t) of the mean; NaN for one row.

    With several `comparisons`, that many such intervals hold at once with 95 % (Bonferroni).
    """
    n = len(samples)
    if n == 1:
        return np.full(samples.shape[1], math.nan)
    width: Floats = stdtrit(n - 1, 1.0 - 0.025 / comparisons) * samples.std(axis=0, ddof=1) / math.sqrt(n)
    return width


def expected_best(grid_regret: Floats, size: int) -> float:
    """Return the mean least regret of `size` settings that are drawn from the grid.

    With the size of the whole grid this is the paper's protocol. With one size for all policies it is that protocol
    without the advantage of a larger grid.

    >>> round(expected_best(np.array([[1.0], [2.0], [3.0]]), 2), 6)  # pairs 12, 13 and 23
    1.333333
    """
    settings = len(grid_regret)
    size = min(size, settings)
    ordered = np.sort(grid_regret, axis=0)
    rank = np.arange(settings - size + 1)
    # The setting of this rank is the best of a subset in C(settings - 1 - rank, size - 1) of C(settings, size) subsets.
    log_share = _log_choose(settings - 1 - rank, size - 1) - _log_choose(np.array([settings]), size)
    weights = np.exp(log_share)
    return float((weights @ ordered[: len(rank)]).mean())


def _log_choose(n: Ints, k: int) -> Floats:
    logs: Floats = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return logs


def best_pulls(result: ExperimentResult, protocol: ProtocolResult) -> BestPulls:
    """Return the median pulls of the arms of largest value in each seed's first round."""
    experiment, outcomes = result.experiment, protocol.outcomes
    arms, values = zip(*(_best_arms(experiment, seed) for seed in outcomes[0].seeds), strict=True)
    count = min(len(arms_of_seed) for arms_of_seed in arms)
    indices = np.array([arms_of_seed[:count] for arms_of_seed in arms])
    medians = {outcome.label: np.median(_pulls_at(outcome.pulls, indices), axis=0) for outcome in outcomes}
    names = [ORDINALS[i] if i < len(ORDINALS) else f"{i + 1}th best" for i in range(count)]
    best_values = np.array([values_of_seed[:count] for values_of_seed in values])
    if (best_values == best_values[0]).all():
        names = [f"{name} ({value:.3f})" for name, value in zip(names, best_values[0], strict=True)]
    return BestPulls(tuple(names), medians)


def _best_arms(experiment: Experiment, seed: int) -> tuple[Ints, Floats]:
    first = next(experiment.environment.rounds(1, seed))
    values = first.payoffs[0, : first.counts[0]]
    arms = np.argsort(-values, kind="stable")[: experiment.best_arms]
    return arms, values[arms]


def _pulls_at(pulls: Floats, arms: Ints) -> Floats:
    """Return the pulls of each seed's best arms. Arms beyond the last pulled one have 0 pulls."""
    missing = max(0, int(arms.max()) + 1 - pulls.shape[1])
    return np.take_along_axis(np.pad(pulls, ((0, 0), (0, missing))), arms, axis=1)
