"""The headline of an evaluation: a doubly robust estimate of the value and of the gain over the log, with intervals.

There are two kinds of interval. `AnytimeInterval` holds at every number of rows, so that one may look as often as one
likes. The fixed-n interval is narrower and holds if one looks once.

A sample variance is too small while the rows with large weights have not been drawn. If the log has the probabilities
p(a) of all arms, the variance of a term is also known in expectation, but for the variance of rewards:

    sum_a pi(a)^2 / p(a) Var(r | a), plus the variance of sum_a pi(a) q(a) over rows.

Var(r | a) is taken from the reward model, times the factor by which squared residuals differ from it, on the target's
arms as far as there are rows of them. The fixed-n interval uses a mean of both variances: the expected one counts for
`PRIOR_ROWS` rows, the sample's for the effective rewards, which are fewer than the effective sample size if rewards are
rare. Rewards that are rare also make the errors of an estimate skewed. So bounded rewards have Wilson's interval: its
variance follows the value, and its upper half is longer if the value is near the lowest reward.
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
"""The effective rewards at which the sample variance counts as much as the expected one."""
PRIOR_RESIDUALS = 10.0
"""The effective rewards at which the residuals of the target's arms count as much as those of all arms."""
ENOUGH = 10.0
"""The effective sample size below which there is no fixed-n interval."""
LEAST_REACH = 1e-12
"""The least half of an interval, relative to the value: a target that equals the logging policy has only rounding."""


@dataclass(frozen=True, kw_only=True)
class DoublyRobustEstimate:
    """An estimate and its intervals."""

    value: float
    standard_error: float
    fixed_n: Interval | str
    """Holds if one looks once; or why there is none."""
    anytime: AnytimeInterval | str
    """Holds at every number of rows at once; or why there is none."""

    @property
    def interval(self) -> Interval | str:
        """The default interval: the one that holds at every number of rows; where there is none, the fixed-n one."""
        return self.fixed_n if isinstance(self.anytime, str) else self.anytime.interval


@dataclass(frozen=True, kw_only=True)
class Headline:
    """What a log says about a target."""

    value: DoublyRobustEstimate
    """The mean reward of a decision, had the target decided."""
    gain: DoublyRobustEstimate
    """How much more that is than what the logging policy earned on average."""


class HeadlineSums:
    """Reads blocks of a log.

    Args:
        anytime: reads the same blocks; or why there are no anytime-valid intervals.
        reward_range: lowest and highest reward that there can be; maybe infinite.
    """

    def __init__(self, anytime: AnytimeIntervals | str, reward_range: tuple[float, float]) -> None:
        self._anytime, self._range = anytime, reward_range
        self._value, self._gain = MomentSums(1), MomentSums(1)
        self._value_variance, self._gain_variance = _ExpectedVariance(), _ExpectedVariance()
        self._expected, self._complete = 0.0, True
        self._residuals, self._target_residuals = _VarianceRatio(), _VarianceRatio()

    def add(self, block: LoggedData, target: Floats, predicted: Floats, weights: Floats, units: Ints | None) -> None:
        """Add the next rows.

        Args:
            block: the rows.
            target: probabilities of the arms, (rows, most).
            predicted: rewards that a model expects which has not seen the row, (rows, most).
            weights: of the chosen arms, (rows,).
            units: the cluster of each row; None if rows stand alone.
        """
        if isinstance(self._anytime, AnytimeIntervals):
            self._anytime.add(block, target)
        predicted = np.where(block.there, predicted, 0.0)
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
        self._residuals.add(squares, model_variances)
        self._target_residuals.add(weights * squares, weights * model_variances)
        self._value.add(values[:, np.newaxis], units)
        self._gain.add(gains[:, np.newaxis], units)

    def _variances(self, predicted: Floats) -> Floats:
        """Variances of rewards up to a factor: for bounded rewards largest in the middle of their range."""
        lowest, highest = self._range
        variances = np.ones_like(predicted)
        if math.isfinite(lowest):
            variances *= predicted - lowest
        if math.isfinite(highest):
            variances *= highest - predicted
        return np.maximum(variances, 0.0)

    def headline(self, level: float, sample_size: float) -> Headline:
        """Return the estimates, given the effective sample size."""
        value, gain = self._value.moments(), self._gain.moments()
        middle = _inside(float(value.mean[0]), self._expected / value.rows, self._range)
        rewards = sample_size if middle is None else self._effective_rewards(middle, sample_size)
        factor = (PRIOR_RESIDUALS * self._residuals.ratio + rewards * self._target_residuals.ratio) / (
            PRIOR_RESIDUALS + rewards
        )

        def error_of(moments: Moments, variance: _ExpectedVariance) -> float:
            expected = variance.of_a_term(factor) if self._complete and not moments.grouped else None
            return _standard_error(moments, expected, rewards)

        errors = error_of(value, self._value_variance), error_of(gain, self._gain_variance)
        quantile = float(stdtrit(max(min(value.groups - 1.0, rewards), 2.0), 0.5 + level / 2))
        below, above = _wilson_reach(middle, errors[0], quantile, self._range)

        def estimate(moments: Moments, error: float, anytime: AnytimeInterval | str) -> DoublyRobustEstimate:
            mean, reason = float(moments.mean[0]), _why_no_interval(sample_size, moments.rows)
            # The gain's interval has the shape of the value's: both get their large errors from the same rows.
            least = LEAST_REACH * max(abs(mean), float(np.abs(value.mean[0])))
            interval = Interval(mean - max(below * error, least), mean + max(above * error, least))
            return DoublyRobustEstimate(value=mean, standard_error=error, fixed_n=reason or interval, anytime=anytime)

        known = self._anytime
        return Headline(
            value=estimate(value, errors[0], known if isinstance(known, str) else known.value(level)),
            gain=estimate(gain, errors[1], known if isinstance(known, str) else known.gain(level)),
        )

    def _effective_rewards(self, value: float, sample_size: float) -> float:
        """The effective sample size, times 4 v (1 - v) for rewards of 0 and 1 with mean v: few rows tell much then.

        Rewards whose variance is smaller than that of 0 and 1 with the same mean are reduced less, or not at all.
        """
        share = (value - self._range[0]) / (self._range[1] - self._range[0])
        noise = min(max(self._residuals.ratio, 1e-300), 1.0)
        return sample_size * min(1.0, 4.0 * share * (1.0 - share) / noise)


class _VarianceRatio:
    """How much larger squared residuals are than the variances that the reward model expects."""

    def __init__(self) -> None:
        self._squares, self._variances = 0.0, 0.0

    def add(self, squares: Floats, variances: Floats) -> None:
        """Add rows."""
        self._squares += float(squares.sum())
        self._variances += float(variances.sum())

    @property
    def ratio(self) -> float:
        """0 before the first row."""
        return self._squares / self._variances if self._variances > 0.0 else 0.0


class _ExpectedVariance:
    """The expected variance of the doubly robust terms of a difference between policies."""

    def __init__(self) -> None:
        self._rows, self._noise, self._sum, self._squares = 0, 0.0, 0.0, 0.0

    def add(self, measure: Floats, logged: Floats, variances: Floats, expected: Floats) -> None:
        """Add rows: pi(a) or pi(a) - b(a), p(a), variances of rewards (rows, arms), and the expected difference."""
        possible = logged > 0.0
        squares = np.divide(measure * measure, logged, out=np.zeros_like(logged), where=possible)
        self._noise += float(np.einsum("ra,ra->", squares, variances))
        self._rows += len(expected)
        self._sum += float(expected.sum())
        self._squares += float(expected @ expected)

    def of_a_term(self, factor: float) -> float:
        """Return it, with variances of rewards that are `factor` times those that were added."""
        mean = self._sum / self._rows
        return factor * self._noise / self._rows + max(self._squares / self._rows - mean * mean, 0.0)


def _inside(value: float, expected: float, reward_range: tuple[float, float]) -> float | None:
    """Move a value that is close to the lowest or the highest reward towards the expected one; None without a range."""
    lowest, highest = reward_range
    if not (math.isfinite(highest - lowest) and lowest < expected < highest):
        return None
    return min(max(value, lowest + (expected - lowest) / 4.0), highest - (highest - expected) / 4.0)


def _wilson_reach(
    value: float | None, error: float, quantile: float, reward_range: tuple[float, float]
) -> tuple[float, float]:
    """How many standard errors the interval reaches below and above the estimate.

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
    if sample_size >= ENOUGH:
        return None
    enough = f"; about {rows * ENOUGH / sample_size:.2g} rows like these would be enough" if sample_size else ""
    return f"not enough evidence: the effective sample size is {sample_size:.2g} of {rows} rows{enough}"


def _standard_error(moments: Moments, expected: float | None, rewards: float) -> float:
    error = moments.standard_error(np.ones(1))
    if expected is None:
        return error
    if math.isnan(error):
        return math.sqrt(expected / moments.rows)
    sample = error * error * moments.rows
    return math.sqrt((PRIOR_ROWS * expected + rewards * sample) / (PRIOR_ROWS + rewards) / moments.rows)
