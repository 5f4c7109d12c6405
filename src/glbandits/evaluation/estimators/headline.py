"""Headline: doubly robust estimates of the value and of the gain, with intervals.

There are two kinds of interval. `AnytimeInterval` holds at every number of rows, so that it may be computed repeatedly
while the log grows. The fixed-n interval is narrower, and holds if it is computed once.

The sample variance is too small if rows with large weights exist but were not drawn. If the log has the probabilities
p(a) of all arms, the expected variance of a term is known, except for the variance of rewards:

    sum_a pi(a)^2 / p(a) Var(r | a), plus the variance of sum_a pi(a) q(a) over rows.

Var(r | a) comes from the reward model, times the ratio of squared residuals to the variance of the model. Rows with a
larger weight count more in the ratio, because they contribute more to the variance: rewards may be noisier where
propensities are small. If the log has few such rows, the ratio moves towards that of the other rows.

The fixed-n interval uses a weighted mean of both variances: the expected variance has the weight `PRIOR_ROWS`, the
sample variance the number of effective rewards, which is smaller than the effective sample size if rewards are rare.
Rare rewards also make the distribution of the estimate skewed. So bounded rewards have Wilson's interval, in which the
variance depends on the value: its upper half is longer if the value is near the lowest reward.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from glbandits.evaluation.estimators.anytime import AnytimeInterval, AnytimeIntervals
from glbandits.evaluation.estimators.grouped_moments import Moments, MomentSums
from glbandits.evaluation.estimators.intervals import Interval
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.records import Floats, Ints

PRIOR_ROWS = 100.0
"""Number of effective rewards at which the sample variance has the same weight as the expected one."""
PRIOR_RESIDUALS = 10.0
"""Number of effective rewards at which residuals with larger weights count as much as those with smaller weights."""
MIN_SAMPLE_SIZE = 10.0
"""Effective sample size below which there is no fixed-n interval."""
MIN_RELATIVE_HALF_WIDTH = 1e-12
"""Minimum half-width of an interval relative to the value, for rounding errors if target and logging policy agree."""


@dataclass(frozen=True, kw_only=True)
class DoublyRobustEstimate:
    """A doubly robust estimate with its intervals."""

    value: float
    standard_error: float
    fixed_n: Interval | str
    """Interval that holds if it is computed once; or the reason why there is none."""
    anytime: AnytimeInterval | str
    """Interval that holds at every number of rows at once; or the reason why there is none."""

    @property
    def interval(self) -> Interval | str:
        """The anytime-valid interval, or the fixed-n interval if there is none."""
        return self.fixed_n if isinstance(self.anytime, str) else self.anytime.interval


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Estimates of the value of a target and of its gain."""

    value: DoublyRobustEstimate
    """Mean reward per decision of the target."""
    gain: DoublyRobustEstimate
    """The value minus the mean reward of the logging policy."""


class HeadlineSums:
    """Accumulates the headline over blocks of a log.

    Args:
        anytime: accumulates the anytime-valid intervals; or the reason why there are none.
        reward_range: lowest and highest possible reward, which may be infinite.
    """

    def __init__(self, anytime: AnytimeIntervals | str, reward_range: tuple[float, float]) -> None:
        self._anytime, self._range = anytime, reward_range
        self._value, self._gain = MomentSums(1), MomentSums(1)
        self._value_variance, self._gain_variance = _ExpectedVariance(), _ExpectedVariance()
        self._expected, self._complete = 0.0, True
        # With row weights 1 and w; then with w^2 and (w - 1)^2, as in the variances of value and gain.
        self._residuals, self._target_residuals = _VarianceRatio(), _VarianceRatio()
        self._value_residuals, self._gain_residuals = _VarianceRatio(), _VarianceRatio()

    def add(self, block: LoggedData, target: Floats, predicted: Floats, weights: Floats, units: Ints | None) -> None:
        """Add the next rows.

        Args:
            block: the rows.
            target: the target's probabilities of the arms, (rows, max_arms).
            predicted: expected rewards by a model that has not learned the row, (rows, max_arms).
            weights: weights of the chosen arms, (rows,).
            units: cluster number of each row; None if rows are independent.
        """
        if isinstance(self._anytime, AnytimeIntervals):
            self._anytime.add(block, target)
        predicted = np.where(block.arm_mask, predicted, 0.0)
        of_chosen = predicted[np.arange(len(block)), block.chosen]
        residuals = block.rewards - of_chosen
        expected: Floats = np.einsum("ra,ra->r", target, predicted)
        self._expected += float(expected.sum())
        values = expected + weights * residuals
        gains = values - block.rewards
        logged = block.probabilities
        if logged is None:
            self._complete = False
        else:
            own: Floats = np.einsum("ra,ra->r", logged, predicted)
            gains += of_chosen - own
            variances = self._variances(predicted)
            self._value_variance.add(target, logged, variances, expected)
            self._gain_variance.add(target - logged, logged, variances, expected - own)
        squares, model_variances = residuals * residuals, self._variances(of_chosen)
        self._residuals.add(np.ones_like(weights), squares, model_variances)
        self._target_residuals.add(weights, squares, model_variances)
        self._value_residuals.add(weights**2, squares, model_variances)
        self._gain_residuals.add((weights - 1.0) ** 2, squares, model_variances)
        self._value.add(values[:, np.newaxis], units)
        self._gain.add(gains[:, np.newaxis], units)

    def _variances(self, predicted: Floats) -> Floats:
        """Variances of rewards up to a constant factor.

        For bounded rewards they are largest in the middle of the range.
        """
        lowest, highest = self._range
        variances = np.ones_like(predicted)
        if math.isfinite(lowest):
            variances *= predicted - lowest
        if math.isfinite(highest):
            variances *= highest - predicted
        return np.maximum(variances, 0.0)

    def headline(self, level: float, sample_size: float) -> Headline:
        """Return the estimates of all rows so far."""
        value, gain = self._value.moments(), self._gain.moments()
        inner = _inner_value(float(value.mean[0]), self._expected / value.rows, self._range)
        effective_rewards = sample_size if inner is None else self._effective_rewards(inner, sample_size)
        of_target = _shrunk(self._target_residuals.ratio, effective_rewards, self._residuals.ratio)

        def error_of(moments: Moments, variance: _ExpectedVariance, residuals: _VarianceRatio) -> float:
            if not self._complete or moments.grouped:
                return _standard_error(moments, None, effective_rewards)
            rewards = residuals.sample_size * (effective_rewards / sample_size if sample_size else 0.0)
            factor = _shrunk(residuals.ratio, rewards, of_target)
            return _standard_error(moments, variance.of_a_term(factor), effective_rewards)

        errors = (
            error_of(value, self._value_variance, self._value_residuals),
            error_of(gain, self._gain_variance, self._gain_residuals),
        )
        quantile = float(stdtrit(max(min(value.groups - 1.0, effective_rewards), 2.0), 0.5 + level / 2))
        below, above = _wilson_half_widths(inner, errors[0], quantile, self._range)

        def estimate(moments: Moments, error: float, anytime: AnytimeInterval | str) -> DoublyRobustEstimate:
            mean, reason = float(moments.mean[0]), _why_no_interval(sample_size, moments.rows)
            # The gain's interval has the shape of the value's: both get their large errors from the same rows.
            least = MIN_RELATIVE_HALF_WIDTH * max(abs(mean), float(np.abs(value.mean[0])))
            interval = Interval(mean - max(below * error, least), mean + max(above * error, least))
            return DoublyRobustEstimate(value=mean, standard_error=error, fixed_n=reason or interval, anytime=anytime)

        intervals = self._anytime
        return Headline(
            value=estimate(value, errors[0], intervals if isinstance(intervals, str) else intervals.value(level)),
            gain=estimate(gain, errors[1], intervals if isinstance(intervals, str) else intervals.gain(level)),
        )

    def _effective_rewards(self, value: float, sample_size: float) -> float:
        """The effective sample size, times 4 v (1 - v) for rewards of 0 and 1 with mean v.

        The factor is closer to 1 for rewards with a smaller variance than that of 0 and 1 with the same mean.
        """
        share = (value - self._range[0]) / (self._range[1] - self._range[0])
        noise = min(max(self._residuals.ratio, 1e-300), 1.0)
        return sample_size * min(1.0, 4.0 * share * (1.0 - share) / noise)


def _shrunk(ratio: float, sample_size: float, prior: float) -> float:
    """Weighted mean of a ratio and a prior. The prior has the weight of PRIOR_RESIDUALS effective rewards."""
    return (PRIOR_RESIDUALS * prior + sample_size * ratio) / (PRIOR_RESIDUALS + sample_size)


class _VarianceRatio:
    """Ratio of squared residuals to the variances of the reward model, over weighted rows."""

    def __init__(self) -> None:
        self._squares, self._variances, self._weights, self._squared_weights = 0.0, 0.0, 0.0, 0.0

    def add(self, weights: Floats, squares: Floats, variances: Floats) -> None:
        """Add rows with their weights, squared residuals and model variances."""
        self._squares += float(weights @ squares)
        self._variances += float(weights @ variances)
        self._weights += float(weights.sum())
        self._squared_weights += float(weights @ weights)

    @property
    def sample_size(self) -> float:
        """The effective sample size of the weights."""
        return self._weights**2 / self._squared_weights if self._squared_weights > 0.0 else 0.0

    @property
    def ratio(self) -> float:
        """The ratio; 0 before the first row."""
        return self._squares / self._variances if self._variances > 0.0 else 0.0


class _ExpectedVariance:
    """Expected variance of doubly robust terms, given the probabilities of all arms."""

    def __init__(self) -> None:
        self._rows, self._noise, self._sum, self._squares = 0, 0.0, 0.0, 0.0

    def add(self, measure: Floats, logged: Floats, variances: Floats, expected: Floats) -> None:
        """Add rows.

        `measure` is pi(a), or pi(a) - p(a) for the gain. `logged` is p(a). `variances` are those of rewards. All are
        (rows, arms). `expected` is the sum of measure(a) q(a), (rows,).
        """
        possible = logged > 0.0
        squares = np.divide(measure * measure, logged, out=np.zeros_like(logged), where=possible)
        self._noise += float(np.einsum("ra,ra->", squares, variances))
        self._rows += len(expected)
        self._sum += float(expected.sum())
        self._squares += float(expected @ expected)

    def of_a_term(self, factor: float) -> float:
        """Return the variance of a term, with the variances of rewards multiplied by `factor`."""
        mean = self._sum / self._rows
        return factor * self._noise / self._rows + max(self._squares / self._rows - mean * mean, 0.0)


def _inner_value(value: float, expected: float, reward_range: tuple[float, float]) -> float | None:
    """Return the value, moved away from the bounds of rewards; None without bounds.

    It keeps a quarter of the distance between each bound and `expected`, the value by the reward model.
    """
    lowest, highest = reward_range
    if not (math.isfinite(highest - lowest) and lowest < expected < highest):
        return None
    return min(max(value, lowest + (expected - lowest) / 4.0), highest - (highest - expected) / 4.0)


def _wilson_half_widths(
    value: float | None, error: float, quantile: float, reward_range: tuple[float, float]
) -> tuple[float, float]:
    """Half-widths of the interval below and above the estimate, in standard errors.

    Wilson (1927): the values v for which |value - v| <= quantile * error * sqrt(v (1 - v) / (value (1 - value))), where
    0 and 1 are the lowest and the highest reward.
    """
    if value is None or not error > 0.0:
        return quantile, quantile
    span = reward_range[1] - reward_range[0]
    share, unit = (value - reward_range[0]) / span, error / span
    ratio = (quantile * unit) ** 2 / (share * (1.0 - share))
    root = math.sqrt(ratio * ratio + 4.0 * ratio * share * (1.0 - share))
    low, high = ((2.0 * share + ratio + sign * root) / (2.0 + 2.0 * ratio) for sign in (-1.0, 1.0))
    return (share - low) / unit, (high - share) / unit


def _why_no_interval(sample_size: float, rows: int) -> str | None:
    if sample_size >= MIN_SAMPLE_SIZE:
        return None
    enough = (
        f"; about {rows * MIN_SAMPLE_SIZE / sample_size:.2g} rows like these would be enough" if sample_size else ""
    )
    return f"not enough evidence: the effective sample size is {sample_size:.2g} of {rows} rows{enough}"


def _standard_error(moments: Moments, expected: float | None, effective_rewards: float) -> float:
    """Standard error from the sample variance, and the expected variance if it is known."""
    error = moments.standard_error(np.ones(1))
    if expected is None:
        return error
    if math.isnan(error):
        return math.sqrt(expected / moments.rows)
    sample = error * error * moments.rows
    return math.sqrt(
        (PRIOR_ROWS * expected + effective_rewards * sample) / (PRIOR_ROWS + effective_rewards) / moments.rows
    )
