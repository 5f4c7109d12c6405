"""Headline: doubly robust estimates of value, gain and difference from a reference, with intervals.

There are two kinds of interval. `AnytimeInterval` holds at every number of rows, so that it may be computed repeatedly
while the log grows. The fixed-n interval (`fixed_n`) is narrower, and holds if it is computed once.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.evaluation.estimators.anytime import AnytimeInterval, AnytimeSums
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.fixed_n import (
    EstimateSums,
    EvidenceSums,
    PairEvidence,
    PairEvidenceSums,
    TermRows,
)
from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.evaluation.estimators.log_rows import LogRows
from glbandits.evaluation.estimators.measures import Measure
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE, Support
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind
from glbandits.maths.online_statistics.mergeable import Mergeable, merged

SAME_DECISIONS = "it decides like the reference in all rows"
"""The reason why a difference has no fixed-n interval if it is 0 in every row."""
ROUNDING = 1e-9
"""A smaller difference, relative to the estimate, is a rounding error."""
MAX_ERRORS = 4.0
"""The number of standard errors of the corrected difference above which `agreement_doubts` warns.

For normal errors a correct log exceeds it in 1 of 16,000 evaluations. None of 13,671 simulated logs that pass the
other conditions, with weights of up to 50, exceeded it."""
MAX_ROW_SHARE = 0.02
"""The largest share of one row in the sum of all squared weights, for a warning: beyond it errors are not normal."""


@dataclass(frozen=True, kw_only=True)
class DoublyRobustEstimate:
    """A doubly robust estimate with its intervals."""

    value: float
    standard_error: float
    fixed_n: Interval | None
    """Interval that holds if it is computed once."""
    anytime: AnytimeInterval | None
    """Interval that holds at every number of rows at once."""
    no_fixed_n: str = ""
    """Why there is no fixed-n interval."""
    no_anytime: str = ""
    """Why there is no anytime-valid interval."""

    @property
    def intervals(self) -> dict[str, tuple[Interval | None, str]]:
        """Both intervals by their names in tables, each with the reason why there is none."""
        every_n = None if self.anytime is None else self.anytime.interval
        return {"at every n": (every_n, self.no_anytime), "at this n only": (self.fixed_n, self.no_fixed_n)}

    @property
    def interval(self) -> Interval | None:
        """The anytime-valid interval, or the fixed-n interval if there is none."""
        return self.fixed_n if self.anytime is None else self.anytime.interval

    def without_evidence(self, reason: str) -> "DoublyRobustEstimate":
        """Return the estimate without its numbers, because of this reason."""
        nan = math.nan
        return replace(
            self, value=nan, standard_error=nan, fixed_n=None, anytime=None, no_fixed_n=reason, no_anytime=reason
        )

    def __str__(self) -> str:
        interval = self.interval
        bounds = f"none: {self.no_fixed_n}" if interval is None else f"{interval.low:.5f} to {interval.high:.5f}"
        return f"{self.value:.5f}, interval {bounds}"


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Estimates of the value of a target, of its gain, and of its difference from a reference."""

    value: DoublyRobustEstimate
    """Mean reward per decision of the target."""
    gain: DoublyRobustEstimate
    """The value minus the mean reward of the logging policy."""
    joint_gain: DoublyRobustEstimate
    """The gain with wider intervals, which hold at once for all targets that are evaluated together."""
    difference: DoublyRobustEstimate | None = None
    """The value minus that of the reference; None without a reference."""

    def without_evidence(self, reason: str) -> "Headline":
        """Return the headline without its numbers, because of this reason."""
        known = {name: each for name, each in vars(self).items() if each is not None}
        return replace(self, **{name: each.without_evidence(reason) for name, each in known.items()})


class Levels(NamedTuple):
    """Confidence levels of intervals."""

    each: float
    """Of the value and the gain of one target."""
    joint_gain: float
    difference: float


class HeadlineSums(Mergeable):
    """Accumulates the headline over blocks of a log.

    Args:
        reward_range: lowest and highest possible reward, which may be infinite.
        least_propensity: as in `AnytimeSums`.
        no_anytime: why there are no anytime-valid intervals; "" computes them.
    """

    rules: ClassVar = dict.fromkeys(("_estimates", "_anytime", "_target", "_pair"), merged)

    def __init__(
        self, reward_range: tuple[float, float], least_propensity: float | None = None, *, no_anytime: str = ""
    ) -> None:
        self._no_anytime = no_anytime
        self._estimates = {measure: EstimateSums(reward_range) for measure in Measure}
        self._anytime = (
            {} if no_anytime else {each: AnytimeSums(each, reward_range, least_propensity) for each in Measure}
        )
        self._target, self._pair = EvidenceSums(reward_range), PairEvidenceSums(reward_range)

    def add(self, rows: LogRows, target: Floats, reference: Floats | None = None) -> None:
        """Add the next rows.

        Args:
            rows: the rows, with predictions.
            target: the target's probabilities of the arms, (rows, max_arms).
            reference: the reference's probabilities of the arms, (rows, max_arms); in all blocks, or in none.
        """
        for measure in Measure:
            if measure is Measure.DIFFERENCE and reference is None:
                continue
            measured = measure.of_rows(rows, target, reference)
            terms = TermRows.of(rows, measured)
            self._estimates[measure].add(rows, terms)
            if self._anytime:
                self._anytime[measure].add(rows, measured)
            if measure is Measure.VALUE:
                self._target.add(terms, rows.of_reward_model)
            elif measure is Measure.DIFFERENCE:
                self._pair.add(rows, measured)

    def headline(self, levels: Levels) -> Headline:
        """Return the estimates of all rows so far."""
        has_reference = self._estimates[Measure.DIFFERENCE].moments.rows > 0
        return Headline(
            value=self._estimate(Measure.VALUE, levels.each),
            gain=self._estimate(Measure.GAIN, levels.each),
            joint_gain=self._estimate(Measure.GAIN, levels.joint_gain),
            difference=self._estimate(Measure.DIFFERENCE, levels.difference) if has_reference else None,
        )

    def _estimate(self, measure: Measure, level: float) -> DoublyRobustEstimate:
        """Return one estimate.

        Exchanging target and reference only changes the sign of the difference, also in its intervals.
        """
        sums, is_difference = self._estimates[measure], measure is Measure.DIFFERENCE
        evidence = self._pair.evidence() if is_difference else self._target.evidence()
        # The gain's interval has the shape of the value's: both get their large errors from the same rows.
        shape = sums if is_difference else self._estimates[Measure.VALUE]
        scale = 0.0 if is_difference else float(shape.moments.mean[0])
        fixed_n, reason = sums.interval(evidence, shape.half_widths(evidence, level), level, scale)
        if isinstance(evidence, PairEvidence) and not evidence.target.decisions:
            fixed_n, reason = None, SAME_DECISIONS
        return DoublyRobustEstimate(
            value=float(sums.moments.mean[0]),
            standard_error=sums.standard_error(evidence),
            fixed_n=fixed_n,
            anytime=self._anytime[measure].interval(level) if self._anytime else None,
            no_fixed_n=reason,
            no_anytime=self._no_anytime,
        )


def agreement_doubts(differences: Moments, headline: Headline, support: Support) -> list[Doubt]:
    """Return doubts if dr disagrees with ips or its anytime-valid interval, and the log is large enough to tell.

    A row adds v + w (r - q) to dr and w r to ips (letters as in `point_estimators`). The difference v - w q has mean 0
    if the propensities are right and the context does not depend on the decision, because E[w q] is then v. A context
    column that is known only after the decision, such as the status of an order, breaks this: q depends on the reward,
    and dr is wrong with a small standard error.

    Both estimates also differ if the mean weight is not 1, which `Support.warnings` reports. So the difference is
    corrected for the mean weight: by beta (mean weight - 1), where beta is the slope of the regression of v - w q on w.

    Args:
        differences: of the terms (v - w q, w).
        headline: the doubly robust estimate.
        support: of the same target.
    """
    sum_of_squares = (support.rows * support.mean_weight) ** 2 / max(support.effective_sample_size, 1.0)
    if (
        min(support.rows, support.effective_sample_size) < MIN_SAMPLE_SIZE
        or support.largest_weight**2 > MAX_ROW_SHARE * sum_of_squares
    ):
        return []
    texts = []
    difference, error = _corrected_difference(differences)
    if abs(difference) > max(MAX_ERRORS * error, ROUNDING * abs(headline.value.value)):
        direction = "higher" if difference > 0.0 else "lower"
        cause = (
            "The cause is probably that of the wrong mean weight"
            if support.has_wrong_mean_weight
            else "The usual cause is a context column that is known only after the decision, such as a status; leave "
            "it out. Wrong propensities are another cause"
        )
        texts.append(
            f"dr is {abs(difference):.5f} {direction} than ips with the same mean weight, which is more than "
            f"{MAX_ERRORS:g} standard errors of their difference ({error:.5f}): dr is wrong. {cause}"
        )
    outside = [name for name, estimate in (("value", headline.value), ("gain", headline.gain)) if _is_outside(estimate)]
    if outside:
        texts.append(
            f"the {' and the '.join(outside)} of dr {'lies' if len(outside) == 1 else 'lie'} outside the interval for "
            "every n, which comes from another estimate than dr: trust neither before the cause is known"
        )
    short = "two estimates of it differ by more than their errors allow"
    return [Doubt(kind=DoubtKind.DISAGREEMENT, text=text, short=short) for text in texts]


def _corrected_difference(differences: Moments) -> tuple[float, float]:
    """The mean of v - w q, corrected for the mean weight, and its standard error."""
    mean, covariance = differences.mean, differences.covariance
    slope = covariance[0, 1] / covariance[1, 1] if covariance[1, 1] > 0.0 else 0.0
    return float(mean[0] - slope * (mean[1] - 1.0)), differences.standard_error(np.array([1.0, -slope]))


def _is_outside(estimate: DoublyRobustEstimate) -> bool:
    if estimate.anytime is None or math.isnan(estimate.value):
        return False
    return not estimate.anytime.low <= estimate.value <= estimate.anytime.high
