"""Results of a problem, and how regrets are compared."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.regret.candidates import SUBJECT
from benchmarks.regret.problem import Problem
from benchmarks.regret.vowpal import EXPLORERS
from glbandits.common.arrays import Floats
from glbandits.lab.experiments.outcomes import half_width

RESAMPLES = 10_000
"""Bootstrap resamples."""
STUCK_FACTOR, STUCK_SHARE = 5.0, 0.6
"""A run is stuck if its regret exceeds 5 times the policy's median, or 60 % of the mean regret of `uniform`."""


@dataclass(frozen=True)
class PolicyResult:
    """The runs of a policy on the fresh seeds of a problem."""

    policy: str
    is_tuned: bool
    """Whether the setting was tuned; False for the default."""
    setting: str
    settings_tried: int
    tuning_seeds: int
    seeds: tuple[int, ...]
    regrets: Floats
    """Final regret, (seeds,)."""
    seconds: float
    """Mean CPU seconds of a run."""

    @property
    def mean(self) -> float:
        """Mean regret."""
        return float(self.regrets.mean())

    @property
    def half_width(self) -> float:
        """Half of a 95 % interval of the mean."""
        return float(half_width(self.regrets[:, np.newaxis])[0])

    @property
    def is_vowpal(self) -> bool:
        """Whether this is an explorer of Vowpal Wabbit."""
        return self.policy in EXPLORERS

    def paired(self, other: "PolicyResult") -> tuple[Floats, Floats]:
        """The regrets of both on their common seeds."""
        common = sorted(set(self.seeds) & set(other.seeds))
        own, others = (dict(zip(result.seeds, result.regrets, strict=True)) for result in (self, other))
        return np.array([own[seed] for seed in common]), np.array([others[seed] for seed in common])

    def ratio(self, other: "PolicyResult") -> float:
        """The ratio of the mean regrets on the common seeds."""
        own, others = self.paired(other)
        return float(own.mean() / others.mean())

    def stuck_share(self, uniform_mean: float) -> float:
        """The share of stuck runs."""
        limit = min(STUCK_FACTOR * float(np.median(self.regrets)), STUCK_SHARE * uniform_mean)
        return float((self.regrets > limit).mean())


@dataclass(frozen=True)
class Ratio:
    """The subject's mean regret relative to a reference."""

    reference: PolicyResult
    value: float
    resampled: Floats
    """The ratio in bootstrap resamples of the common seeds, (resamples,)."""

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % interval, paired by seed."""
        low, high = np.quantile(self.resampled, [0.025, 0.975])
        return float(low), float(high)


@dataclass(frozen=True)
class ProblemResult:
    """All results of one problem.

    Policies are compared by their ratio to the subject on common seeds.
    """

    problem: Problem
    horizon: int
    dim: int
    results: tuple[PolicyResult, ...]
    absent: tuple[tuple[str, str], ...]
    """Policies without runs, and the reason."""

    @property
    def has_comparison(self) -> bool:
        """Whether the subject and another policy have results."""
        policies = {result.policy for result in self.untuned}
        return SUBJECT in policies and len(policies) > 1

    @property
    def subject(self) -> PolicyResult:
        """The policy under test."""
        return next(result for result in self.results if result.policy == SUBJECT)

    @cached_property
    def untuned(self) -> list[PolicyResult]:
        """Every policy of this package with its default."""
        return [result for result in self.results if not result.is_tuned and not result.is_vowpal]

    @cached_property
    def tuned(self) -> list[PolicyResult]:
        """Every policy of this package with its tuned setting, or its default if it has no grid."""
        tuned = [result for result in self.results if result.is_tuned]
        names = {result.policy for result in tuned}
        return tuned + [result for result in self.untuned if result.policy not in names]

    @cached_property
    def uniform_mean(self) -> float:
        """Mean regret of uniform choices; infinity if they were not run."""
        return next((result.mean for result in self.untuned if result.policy == "uniform"), np.inf)

    @cached_property
    def to_tuned(self) -> Ratio:
        """The subject relative to the best tuned policy, chosen in hindsight."""
        return self._to_best([result for result in self.tuned if result.policy != SUBJECT])

    @cached_property
    def to_untuned(self) -> Ratio:
        """The subject relative to the best other policy with its default."""
        return self._to_best([result for result in self.untuned if result.policy != SUBJECT])

    @cached_property
    def to_vowpal(self) -> Ratio | None:
        """The subject relative to the best explorer of Vowpal Wabbit, if they were run."""
        explorers = [result for result in self.results if result.is_vowpal]
        return self._to_best(explorers) if explorers else None

    def relative(self, result: PolicyResult, ratio: Ratio) -> float:
        """Mean regret relative to the reference of this ratio."""
        return result.ratio(self.subject) * ratio.value

    def _to_best(self, results: list[PolicyResult]) -> Ratio:
        reference = min(results, key=lambda result: result.ratio(self.subject))
        own, others = self.subject.paired(reference)
        drawn = np.random.default_rng(0).integers(0, len(own), (RESAMPLES, len(own)))
        return Ratio(reference, float(own.mean() / others.mean()), own[drawn].mean(axis=1) / others[drawn].mean(axis=1))
