"""Headline: doubly robust estimates of value, gain and difference from a reference, with intervals.

There are two kinds of interval. `AnytimeInterval` holds at every number of rows, so that it may be computed repeatedly
while the log grows. The fixed-n interval (`fixed_n`) is narrower, and holds if it is computed once.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.evaluation.estimators.anytime import AnytimeInterval, AnytimeIntervals
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.fixed_n import (
    EstimateSums,
    Evidence,
    EvidenceSums,
    MeasureRows,
    PairEvidence,
)
from glbandits.evaluation.estimators.grouped_moments import Moments
from glbandits.evaluation.estimators.log_rows import LogRows
from glbandits.evaluation.estimators.support import MIN_SAMPLE_SIZE, Support, small_sample

SAME_DECISIONS = "it decides like the reference in all rows"
"""The reason why a difference has no fixed-n interval if it is 0 in every row."""
ROUNDING = 1e-9
"""A smaller difference, relative to the estimate, is a rounding error."""
MAX_ERRORS = 4.0
"""The number of standard errors of the corrected difference above which `agreement_notes` warns.

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
        return Headline(
            value=self.value.without_evidence(reason),
            gain=self.gain.without_evidence(reason),
            joint_gain=self.joint_gain.without_evidence(reason),
            difference=None if self.difference is None else self.difference.without_evidence(reason),
        )


class Levels(NamedTuple):
    """Confidence levels of intervals."""

    each: float
    """Of the value and the gain of one target."""
    joint_gain: float
    difference: float


class HeadlineSums:
    """Accumulates the headline over blocks of a log.

    Args:
        reward_range: lowest and highest possible reward, which may be infinite.
        least_propensity: as in `AnytimeIntervals`.
        no_anytime: why there are no anytime-valid intervals; "" computes them.
    """

    def __init__(
        self, reward_range: tuple[float, float], least_propensity: float | None = None, *, no_anytime: str = ""
    ) -> None:
        self._anytime = None if no_anytime else AnytimeIntervals(reward_range, least_propensity)
        self._no_anytime = no_anytime
        self._value, self._gain, self._difference = EstimateSums(), EstimateSums(), EstimateSums()
        self._target = EvidenceSums(reward_range)
        self._only_target, self._only_reference = EvidenceSums(reward_range), EvidenceSums(reward_range)

    def add(self, rows: LogRows, target: Floats, reference: Floats | None = None) -> None:
        """Add the next rows.

        Args:
            rows: the rows, with predictions.
            target: the target's probabilities of the arms, (rows, max_arms).
            reference: the reference's probabilities of the arms, (rows, max_arms); in all blocks, or in none.
        """
        block, rewards, logged = rows.block, rows.of_reward_model, rows.block.probabilities
        if self._anytime is not None:
            self._anytime.add(rows, target, reference)

        def rows_of(measure: Floats) -> MeasureRows:
            weights = rows.of_chosen(measure) / rows.propensities
            expected: Floats = np.einsum("ra,ra->r", measure, rewards.predicted)
            divisors = rows.positive_probabilities
            squares = None if divisors is None else measure * measure / divisors
            return MeasureRows(expected + weights * rewards.residuals, measure, weights, squares, expected)

        value = rows_of(target)
        self._value.add(rows, value, rewards)
        self._target.add(value, rewards)
        if logged is None:
            gain = value._replace(terms=value.terms - block.payoffs, weights=value.weights - 1.0)
        else:
            gain = rows_of(target - logged)
        self._gain.add(rows, gain, rewards)
        if reference is not None:
            difference = target - reference
            self._difference.add(rows, rows_of(difference), rewards)
            self._only_target.add(rows_of(np.maximum(difference, 0.0)), rewards)
            self._only_reference.add(rows_of(np.maximum(-difference, 0.0)), rewards)

    def headline(self, levels: Levels) -> Headline:
        """Return the estimates of all rows so far."""
        evidence, anytime = self._target.evidence(), self._anytime
        half_widths = self._value.half_widths(evidence, levels.each)
        at_every_n = None if anytime is None else anytime.value(levels.each)
        value = self._estimate(self._value, evidence, half_widths, at_every_n)

        def gain(level: float) -> DoublyRobustEstimate:
            # The gain's interval has the shape of the value's: both get their large errors from the same rows.
            half_widths = self._value.half_widths(evidence, level)
            at_every_n = None if anytime is None else anytime.gain(level)
            return self._estimate(self._gain, evidence, half_widths, at_every_n, value.value)

        return Headline(
            value=value,
            gain=gain(levels.each),
            joint_gain=gain(levels.joint_gain),
            difference=self._difference_estimate(levels.difference),
        )

    def _difference_estimate(self, level: float) -> DoublyRobustEstimate | None:
        """The difference. Exchanging target and reference only changes its sign, also in the intervals."""
        sums, anytime = self._difference, self._anytime
        if not sums.moments.rows:
            return None
        evidence = PairEvidence(self._only_target.evidence(), self._only_reference.evidence())
        half_widths = sums.half_widths(evidence, level)
        estimate = self._estimate(sums, evidence, half_widths, None if anytime is None else anytime.difference(level))
        if evidence.target.decisions:
            return estimate
        return replace(estimate, fixed_n=None, no_fixed_n=SAME_DECISIONS)

    def _estimate(
        self,
        sums: EstimateSums,
        evidence: Evidence | PairEvidence,
        half_widths: tuple[float, float],
        anytime: AnytimeInterval | None,
        scale: float = 0.0,
    ) -> DoublyRobustEstimate:
        moments, fixed_n = sums.moments, sums.interval(evidence, half_widths, scale)
        return DoublyRobustEstimate(
            value=float(moments.mean[0]),
            standard_error=sums.standard_error(evidence),
            fixed_n=fixed_n,
            anytime=anytime,
            no_fixed_n=small_sample(evidence.sample_size, moments.rows) if fixed_n is None else "",
            no_anytime=self._no_anytime,
        )


def agreement_notes(differences: Moments, headline: Headline, support: Support) -> list[str]:
    """Return warnings if dr disagrees with ips or its anytime-valid interval, and the log is large enough to tell.

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
    notes = []
    difference, error = _corrected_difference(differences)
    if abs(difference) > max(MAX_ERRORS * error, ROUNDING * abs(headline.value.value)):
        direction = "higher" if difference > 0.0 else "lower"
        cause = (
            "The cause is probably that of the wrong mean weight"
            if support.has_wrong_mean_weight
            else "The usual cause is a context column that is known only after the decision, such as a status; leave "
            "it out. Wrong propensities are another cause"
        )
        notes.append(
            f"dr is {abs(difference):.5f} {direction} than ips with the same mean weight, which is more than "
            f"{MAX_ERRORS:g} standard errors of their difference ({error:.5f}): dr is wrong. {cause}"
        )
    outside = [name for name, estimate in (("value", headline.value), ("gain", headline.gain)) if _is_outside(estimate)]
    if outside:
        notes.append(
            f"the {' and the '.join(outside)} of dr {'lies' if len(outside) == 1 else 'lie'} outside the interval for "
            "every n, which comes from another estimate than dr: trust neither before the cause is known"
        )
    return notes


def _corrected_difference(differences: Moments) -> tuple[float, float]:
    """The mean of v - w q, corrected for the mean weight, and its standard error."""
    mean, covariance = differences.mean, differences.covariance
    slope = covariance[0, 1] / covariance[1, 1] if covariance[1, 1] > 0.0 else 0.0
    return float(mean[0] - slope * (mean[1] - 1.0)), differences.standard_error(np.array([1.0, -slope]))


def _is_outside(estimate: DoublyRobustEstimate) -> bool:
    if estimate.anytime is None or math.isnan(estimate.value):
        return False
    return not estimate.anytime.low <= estimate.value <= estimate.anytime.high
