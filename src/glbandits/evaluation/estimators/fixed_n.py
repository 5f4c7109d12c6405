"""Fixed-n intervals of doubly robust estimates: they hold if they are computed once.

An estimate has a measure m(a) over the arms of a row (`measures`). The term of a row is
sum_a m(a) q(a) + m / p (r - q), with the predicted rewards q.

The sample variance is too small if rows with large weights exist but were not drawn. If the log has the probabilities
p(a) of all arms, the expected variance of a term is known, except for the variance of rewards:

    sum_a m(a)^2 / p(a) Var(r | a), plus the variance of sum_a m(a) q(a) over rows.

Var(r | a) comes from the reward model, times the ratio of squared residuals to the variance of the model. Rows with a
larger weight count more in the ratio, because they contribute more to the variance: rewards may be noisier where
propensities are small. If the log has few such rows, the ratio moves towards that of the other rows.

The interval uses the larger of both variances. The sample variance alone misses weights that were not drawn. The
expected variance alone is too small where the reward model does not fit the decisions of the target.

Degrees of freedom are the effective rewards: fewer than the effective sample size if rewards are rare. Rare rewards
also make the distribution of the estimate skewed. So bounded rewards have Wilson's interval, in which the variance
depends on the value: its upper half is longer if the value is near the lowest reward.

Effective sample size and rewards are those of the decisions that the estimate is about: those of the target for value
and gain. A difference is about two kinds of decisions, those that only the target makes, max(m(a), 0), and those that
only the reference makes, max(-m(a), 0). Rows in which both agree have no information about it. The two kinds are
combined as two independent samples are: degrees of freedom by Welch and Satterthwaite, Wilson's intervals by Newcombe
(1998). So the difference in the other direction has the same interval with the opposite sign.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import stdtrit

from glbandits.common.arrays import Floats
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.grouped_moments import Moments, MomentSums
from glbandits.evaluation.estimators.log_rows import LogRows, RewardRows
from glbandits.evaluation.estimators.measures import MeasureRows
from glbandits.evaluation.estimators.rare_rewards import RareRewards, RareRewardSums, sums_of_weights
from glbandits.evaluation.estimators.support import MIN_INTERVAL_SAMPLE_SIZE, small_sample
from glbandits.maths.online_statistics.mergeable import Mergeable, added, merged

PRIOR_RESIDUALS = 10.0
"""Number of effective rewards at which residuals with larger weights count as much as those with smaller weights."""
MIN_RELATIVE_HALF_WIDTH = 1e-12
"""Minimum half-width of an interval relative to the value, for rounding errors if target and logging policy agree."""


class TermRows(NamedTuple):
    """The terms of rows for a measure, and what their variance needs."""

    terms: Floats
    """Doubly robust terms, (rows,)."""
    measure: Floats
    """m(a), (rows, arms)."""
    weights: Floats
    """m / p of the chosen arms, (rows,)."""
    squared_weights: Floats | None
    """m(a)^2 / p(a), and 0 for arms with p(a) = 0, (rows, arms); None if p(a) is unknown."""
    expected: Floats
    """Sums of m(a) q(a), (rows,)."""

    @property
    def realised_weights(self) -> tuple[Floats, Floats]:
        """The weights of the chosen arms and their squares, (rows,)."""
        return self.weights, self.weights * self.weights

    @classmethod
    def of(cls, rows: LogRows, measure: MeasureRows) -> "TermRows":
        """Return the terms of a measure. The rows need predictions of the cross-fitted model."""
        rewards, divisors = rows.of_reward_model, rows.positive_probabilities
        expected: Floats = np.einsum("ra,ra->r", measure.arms, rewards.predicted)
        squares = None if divisors is None else measure.arms * measure.arms / divisors
        terms, weights = expected + measure.weights * rewards.residuals, measure.weights
        if measure.minus_payoffs:
            terms, weights = terms - rows.block.payoffs, weights - 1.0
        return cls(terms, measure.arms, weights, squares, expected)


class Evidence(NamedTuple):
    """The evidence of a log on the decisions of a target, or on those that only one of two targets makes."""

    sample_size: float
    """Effective sample size: expected if all p(a) are known, else realised."""
    effective_rewards: float
    residual_ratio: float
    """Ratio of squared residuals to the variances of the model."""
    noise: float
    """Sum of the variances of the weighted rewards, up to a factor."""
    decisions: float
    """Decisions per row: 1 for a target."""
    value: float | None
    """Mean reward of the decisions, moved away from the bounds of rewards; None without bounds."""
    reward_range: tuple[float, float]

    def half_widths(self, error: float, quantile: float) -> tuple[float, float]:
        """Return the half-widths of Wilson's interval below and above an estimate, in standard errors."""
        if self.value is None or not error > 0.0:
            return quantile, quantile
        return _wilson_half_widths(self.value, error / self.decisions, quantile, self.reward_range)


class PairEvidence(NamedTuple):
    """The evidence of a log on the decisions in which a target and a reference differ."""

    target: Evidence
    """On the decisions that only the target makes."""
    reference: Evidence
    """On the decisions that only the reference makes."""

    @property
    def sample_size(self) -> float:
        """Effective sample size."""
        return self._welch_satterthwaite(self.target.sample_size, self.reference.sample_size)

    @property
    def effective_rewards(self) -> float:
        """Effective rewards."""
        return self._welch_satterthwaite(self.target.effective_rewards, self.reference.effective_rewards)

    @property
    def residual_ratio(self) -> float:
        """Ratio of squared residuals to the variances of the model."""
        share, other = self._shares()
        return share * self.target.residual_ratio + other * self.reference.residual_ratio

    def half_widths(self, error: float, quantile: float) -> tuple[float, float]:
        """Return the half-widths of Newcombe's interval below and above an estimate, in standard errors.

        They are at least the quantile. Otherwise the shorter half missed the truth too often in simulations of a very
        good and a very bad arm.
        """
        share, other = map(math.sqrt, self._shares())
        below, above = self.target.half_widths(share * error, quantile)
        reference_below, reference_above = self.reference.half_widths(other * error, quantile)
        return (
            max(quantile, math.sqrt((share * below) ** 2 + (other * reference_above) ** 2)),
            max(quantile, math.sqrt((share * above) ** 2 + (other * reference_below) ** 2)),
        )

    def _shares(self) -> tuple[float, float]:
        """Shares of the variance of the difference."""
        noise = self.target.noise + self.reference.noise
        return (self.target.noise / noise, self.reference.noise / noise) if noise > 0.0 else (0.5, 0.5)

    def _welch_satterthwaite(self, target: float, reference: float) -> float:
        if not (target > 0.0 and reference > 0.0):
            return 0.0
        share, other = self._shares()
        return 1.0 / (share * share / target + other * other / reference)


class EvidenceSums(Mergeable):
    """Accumulates the evidence on the decisions of a measure that is not negative.

    Args:
        reward_range: lowest and highest possible reward, which may be infinite.
    """

    rules: ClassVar = added(
        "_rows", "_decisions", "_terms", "_expected", "_weights", "_squared_weights", "_noise"
    ) | dict.fromkeys(("_residuals", "_weighted_residuals"), merged)

    def __init__(self, reward_range: tuple[float, float]) -> None:
        self._range = reward_range
        self._rows, self._decisions, self._terms, self._expected = 0, 0.0, 0.0, 0.0
        self._weights, self._squared_weights, self._noise = 0.0, 0.0, 0.0
        self._residuals, self._weighted_residuals = _VarianceRatio(), _VarianceRatio()

    def add(self, rows: TermRows, rewards: RewardRows) -> None:
        """Add the next rows."""
        self._rows += len(rows.terms)
        self._decisions += float(rows.measure.sum())
        self._terms += float(rows.terms.sum())
        self._expected += float(rows.expected.sum())
        self._residuals.add_unweighted(rewards)
        self._weighted_residuals.add(rows.weights, rewards)
        if rows.squared_weights is None:
            self._weights += float(rows.weights.sum())
            self._squared_weights += _inner(rows.weights, rows.weights)
            self._noise += _inner(rows.weights**2, rewards.chosen_variances)
        else:
            self._weights += float(rows.measure.sum(where=rows.squared_weights > 0.0))
            self._squared_weights += float(rows.squared_weights.sum())
            self._noise += float(np.einsum("ra,ra->", rows.squared_weights, rewards.variances))

    def evidence(self) -> Evidence:
        """Return the evidence of all rows so far."""
        value, sample_size = None, 0.0
        if self._decisions > 0.0:
            value = _inner_value(self._terms / self._decisions, self._expected / self._decisions, self._range)
        if self._squared_weights > 0.0:
            sample_size = self._weights**2 / self._squared_weights
        rewards = sample_size if value is None else self._effective_rewards(value, sample_size)
        return Evidence(
            sample_size=sample_size,
            effective_rewards=rewards,
            residual_ratio=_shrunk(self._weighted_residuals.ratio, rewards, self._residuals.ratio),
            noise=self._noise,
            decisions=self._decisions / max(self._rows, 1),
            value=value,
            reward_range=self._range,
        )

    def _effective_rewards(self, value: float, sample_size: float) -> float:
        """The effective sample size, times 4 v (1 - v) for rewards of 0 and 1 with mean v.

        The factor is closer to 1 for rewards with a smaller variance than that of 0 and 1 with the same mean.
        """
        share = (value - self._range[0]) / (self._range[1] - self._range[0])
        noise = min(max(self._residuals.ratio, 1e-300), 1.0)
        return sample_size * min(1.0, 4.0 * share * (1.0 - share) / noise)


class PairEvidenceSums(Mergeable):
    """Accumulates the evidence on the decisions in which a target and a reference differ.

    Args:
        reward_range: lowest and highest possible reward, which may be infinite.
    """

    rules: ClassVar = dict.fromkeys(("_target", "_reference"), merged)

    def __init__(self, reward_range: tuple[float, float]) -> None:
        self._target, self._reference = EvidenceSums(reward_range), EvidenceSums(reward_range)

    def add(self, rows: LogRows, difference: MeasureRows) -> None:
        """Add the next rows, with the measure of the difference."""
        for sums, arms in ((self._target, difference.arms), (self._reference, -difference.arms)):
            only = MeasureRows.of(rows, np.maximum(arms, 0.0))
            sums.add(TermRows.of(rows, only), rows.of_reward_model)

    def evidence(self) -> PairEvidence:
        """Return the evidence of all rows so far."""
        return PairEvidence(self._target.evidence(), self._reference.evidence())


class EstimateSums(Mergeable):
    """Accumulates one doubly robust estimate with its variance.

    Args:
        payoff_range: lowest and highest possible payoff, which may be infinite.
    """

    rules: ClassVar = dict.fromkeys(("_terms", "_expected_variance", "_residuals", "_rare"), merged)

    def __init__(self, payoff_range: tuple[float, float]) -> None:
        self._terms, self._expected_variance, self._residuals = MomentSums(1), _ExpectedVariance(), _VarianceRatio()
        span = payoff_range[1] - payoff_range[0]
        self._rare = [RareRewardSums(span), *([RareRewardSums(-span)] if math.isfinite(span) else [])]

    def add(self, log: LogRows, rows: TermRows) -> None:
        """Add the next rows."""
        rewards = log.of_reward_model
        log.add_to(self._terms, rows.terms)
        self._residuals.add(rows.weights**2, rewards)
        if rows.squared_weights is not None:
            self._expected_variance.add(rows.squared_weights, rewards.variances, rows.expected)
        weights = (rows.measure, rows.squared_weights) if rows.squared_weights is not None else rows.realised_weights
        sums = sums_of_weights(*weights)
        for rare, payoffs in zip(self._rare, log.payoffs_of_rewards, strict=True):
            rare.add(log, payoffs, rows.weights, sums)

    def _rare_rewards(self) -> RareRewards | None:
        """The contributions of rewards if they are rare: the fewest, of few rewards or of few missing ones."""
        rare = [each for sums in self._rare if (each := sums.rare_rewards()) is not None]
        return min(rare, key=lambda each: each.effective, default=None)

    @property
    def moments(self) -> Moments:
        """Moments of the terms."""
        return self._terms.moments()

    def standard_error(self, evidence: Evidence | PairEvidence) -> float:
        """Return the standard error from the sample variance, or the expected variance if that is known and larger."""
        moments = self.moments
        error = moments.standard_error(np.ones(1))
        if moments.grouped or not self._expected_variance.rows:
            return error
        per_row = evidence.effective_rewards / evidence.sample_size if evidence.sample_size else 0.0
        factor = _shrunk(self._residuals.ratio, self._residuals.sample_size * per_row, evidence.residual_ratio)
        expected = math.sqrt(self._expected_variance.of_a_term(factor) / moments.rows)
        return expected if math.isnan(error) else max(expected, error)

    def half_widths(self, evidence: Evidence | PairEvidence, level: float) -> tuple[float, float]:
        """Return the half-widths of the interval below and above the estimate, in standard errors."""
        freedom = max(min(self.moments.groups - 1.0, evidence.effective_rewards), 2.0)
        quantile = float(stdtrit(freedom, 0.5 + level / 2))
        return evidence.half_widths(self.standard_error(evidence), quantile)

    def interval(
        self, evidence: Evidence | PairEvidence, half_widths: tuple[float, float], level: float, scale: float = 0.0
    ) -> tuple[Interval | None, str]:
        """Return the interval; None with the reason if there is not enough evidence for one.

        Args:
            evidence: on the decisions that the estimate is about.
            half_widths: below and above the estimate, in standard errors; not used if rewards are rare.
            level: of an interval for rare rewards.
            scale: a value of which the half-widths are at least `MIN_RELATIVE_HALF_WIDTH`.
        """
        if evidence.sample_size < MIN_INTERVAL_SAMPLE_SIZE:
            return None, small_sample(evidence.sample_size, self.moments.rows)
        value, error, rare = float(self.moments.mean[0]), self.standard_error(evidence), self._rare_rewards()
        if rare is not None and rare.reason:
            return None, rare.reason
        least = MIN_RELATIVE_HALF_WIDTH * max(abs(value), abs(scale))
        widths = [each * error for each in half_widths] if rare is None else rare.half_widths(level)
        below, above = (max(width, least) for width in widths)
        return Interval(value - below, value + above), ""


def _inner(first: Floats, second: Floats) -> float:
    """The inner product, on one core: the threads of BLAS take longer for vectors of this length."""
    return float(np.einsum("r,r->", first, second))


def _shrunk(ratio: float, sample_size: float, prior: float) -> float:
    """Weighted mean of a ratio and a prior. The prior has the weight of PRIOR_RESIDUALS effective rewards."""
    return (PRIOR_RESIDUALS * prior + sample_size * ratio) / (PRIOR_RESIDUALS + sample_size)


class _VarianceRatio(Mergeable):
    """Ratio of squared residuals to the variances of the reward model, over weighted rows."""

    rules: ClassVar = added("_squares", "_variances", "_weights", "_squared_weights")

    def __init__(self) -> None:
        self._squares, self._variances, self._weights, self._squared_weights = 0.0, 0.0, 0.0, 0.0

    def add(self, weights: Floats, rewards: RewardRows) -> None:
        """Add rows with their weights."""
        self._squares += _inner(weights, rewards.squared_residuals)
        self._variances += _inner(weights, rewards.chosen_variances)
        self._weights += float(weights.sum())
        self._squared_weights += _inner(weights, weights)

    def add_unweighted(self, rewards: RewardRows) -> None:
        """Add rows with the weight 1."""
        squares, variances = rewards.sums
        self._squares += squares
        self._variances += variances
        self._weights += len(rewards.residuals)
        self._squared_weights += len(rewards.residuals)

    @property
    def sample_size(self) -> float:
        """The effective sample size of the weights."""
        return self._weights**2 / self._squared_weights if self._squared_weights > 0.0 else 0.0

    @property
    def ratio(self) -> float:
        """The ratio; 0 before the first row."""
        return self._squares / self._variances if self._variances > 0.0 else 0.0


class _ExpectedVariance(Mergeable):
    """Expected variance of doubly robust terms, given the probabilities of all arms."""

    rules: ClassVar = added("rows", "_noise", "_sum", "_squares")

    def __init__(self) -> None:
        self.rows, self._noise, self._sum, self._squares = 0, 0.0, 0.0, 0.0

    def add(self, squared_weights: Floats, variances: Floats, expected: Floats) -> None:
        """Add rows: m(a)^2 / p(a) and the variances of rewards, (rows, arms), and sums of m(a) q(a), (rows,)."""
        self._noise += float(np.einsum("ra,ra->", squared_weights, variances))
        self.rows += len(expected)
        self._sum += float(expected.sum())
        self._squares += _inner(expected, expected)

    def of_a_term(self, factor: float) -> float:
        """Return the variance of a term, with the variances of rewards multiplied by `factor`."""
        mean = self._sum / self.rows
        return factor * self._noise / self.rows + max(self._squares / self.rows - mean * mean, 0.0)


def _inner_value(value: float, expected: float, reward_range: tuple[float, float]) -> float | None:
    """Return the value, moved away from the bounds of rewards; None without bounds.

    It keeps a quarter of the distance between each bound and `expected`, the value by the reward model.
    """
    lowest, highest = reward_range
    if not (math.isfinite(highest - lowest) and lowest < expected < highest):
        return None
    return min(max(value, lowest + (expected - lowest) / 4.0), highest - (highest - expected) / 4.0)


def _wilson_half_widths(
    value: float, error: float, quantile: float, reward_range: tuple[float, float]
) -> tuple[float, float]:
    """Half-widths of the interval below and above the estimate, in standard errors.

    Wilson (1927): the values v for which |value - v| <= quantile * error * sqrt(v (1 - v) / (value (1 - value))), where
    0 and 1 are the lowest and the highest reward.
    """
    span = reward_range[1] - reward_range[0]
    share, unit = (value - reward_range[0]) / span, error / span
    ratio = (quantile * unit) ** 2 / (share * (1.0 - share))
    root = math.sqrt(ratio * ratio + 4.0 * ratio * share * (1.0 - share))
    low, high = ((2.0 * share + ratio + sign * root) / (2.0 + 2.0 * ratio) for sign in (-1.0, 1.0))
    return (share - low) / unit, (high - share) / unit
