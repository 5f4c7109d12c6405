"""The headline of an evaluation: a doubly robust estimate of the value and of the gain over the log, with intervals.

There are two kinds of interval. `AnytimeInterval` holds at every number of rows, so that one may look as often as one
likes. The fixed-n interval is narrower and holds if one looks once.

A sample variance is too small while the rows with large weights have not been drawn. If the log has the probabilities
p(a) of all arms, the variance of a term is also known in expectation, but for the variance of rewards:

    sum_a pi(a)^2 / p(a) Var(r | a), plus the variance of sum_a pi(a) q(a) over rows.

Var(r | a) is taken from the reward model, times the factor by which the model's residuals differ from it. The fixed-n
interval uses a mean of both variances: the expected one counts for `PRIOR_ROWS` rows, the sample's for the effective
sample size.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from glbandits.evaluation.anytime import AnytimeInterval, AnytimeIntervals
from glbandits.evaluation.intervals import Interval
from glbandits.evaluation.logged_data import LoggedData
from glbandits.evaluation.moments import Moments, MomentSums
from glbandits.records import Floats, Ints

PRIOR_ROWS = 100.0
"""The effective sample size at which the sample variance counts as much as the expected one."""
ENOUGH = 10.0
"""The effective sample size below which there is no fixed-n interval."""


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
        self._residuals, self._model_variances, self._complete = 0.0, 0.0, True

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
            self._residuals += float(residuals @ residuals)
            self._model_variances += float(variances[np.arange(len(block)), block.chosen].sum())
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
        factor = self._residuals / self._model_variances if self._model_variances > 0.0 else 0.0
        reason = None
        if self._complete and sample_size < ENOUGH:
            rows = self._value.moments().rows
            enough = f"; about {rows * ENOUGH / sample_size:.2g} rows like these would be enough" if sample_size else ""
            reason = f"not enough evidence: the effective sample size is {sample_size:.2g} of {rows} rows{enough}"

        def estimate(
            sums: MomentSums, variance: _ExpectedVariance, anytime: AnytimeInterval | str
        ) -> DoublyRobustEstimate:
            moments = sums.moments()
            prior = variance.of_a_term(factor) if self._complete and not moments.grouped else None
            error = _standard_error(moments, prior, sample_size)
            reach = error * float(stdtrit(max(moments.groups - 1, 1), 0.5 + level / 2))
            value = float(moments.mean[0])
            return DoublyRobustEstimate(
                value=value,
                standard_error=error,
                fixed_n=reason or Interval(value - reach, value + reach),
                anytime=anytime,
            )

        known = self._anytime
        return Headline(
            value=estimate(self._value, self._value_variance, known if isinstance(known, str) else known.value(level)),
            gain=estimate(self._gain, self._gain_variance, known if isinstance(known, str) else known.gain(level)),
        )


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


def _standard_error(moments: Moments, expected: float | None, sample_size: float) -> float:
    error = moments.standard_error(np.ones(1))
    if expected is None:
        return error
    if math.isnan(error):
        return math.sqrt(expected / moments.rows)
    sample = error * error * moments.rows
    return math.sqrt((PRIOR_ROWS * expected + sample_size * sample) / (PRIOR_ROWS + sample_size) / moments.rows)
