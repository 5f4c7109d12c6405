"""Interface of off-policy estimators: terms of each row, a function of their means, and its intervals.

IPS is a mean, and the self-normalised estimators are ratios of two means. The means and their covariance
(`grouped_moments`) determine estimates and intervals, so one pass over a log is enough.
"""

import math
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from glbandits.common.arrays import Floats
from glbandits.evaluation.estimators.grouped_moments import Moments

DEFAULT_LEVEL = 0.95
"""Confidence level of all intervals of evaluations, unless the caller gives another one."""


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float

    def within(self, lowest: float, highest: float) -> "Interval":
        """Return the part of the interval in this range."""
        return Interval(min(max(self.low, lowest), highest), max(min(self.high, highest), lowest))


UNKNOWN_INTERVAL = Interval(math.nan, math.nan)
"""The interval of an estimate with fewer than two independent groups of rows, or without a standard error."""


class EstimatorInputs(NamedTuple):
    """The arrays from which estimators compute their terms, each (m,)."""

    weights: Floats
    """w = pi / p of the chosen arm: the weight."""
    rewards: Floats
    matched: NDArray[np.bool_]
    """Whether an arm that is drawn from the target equals the chosen arm."""
    expected: Floats
    """v: expected reward of the target by the reward model; 0 without a model."""
    predicted: Floats
    """q: expected reward of the chosen arm by the reward model; 0 without a model."""


@runtime_checkable
class Estimator(Protocol):
    """An off-policy estimator of the value of a target."""

    name: ClassVar[str]
    needs_model: ClassVar[bool]
    biased: ClassVar[bool]
    """Whether the estimator is biased even with correct propensities and many rows. Intervals do not cover that
    bias."""
    has_standard_error: ClassVar[bool]
    """Whether the variance over rows measures the error. False for `dm`, whose error is that of the model."""

    def terms(self, rows: EstimatorInputs) -> Floats:
        """Return the terms of each row, (m, k)."""

    def select_terms(self, moments: Moments) -> slice:
        """Return which of the k terms the estimate uses."""

    def combine(self, means: Floats) -> Floats:
        """Return the estimate from the means of the selected terms, (..., k)."""

    def gradient(self, mean: Floats) -> Floats:
        """Return the derivative of the estimate with respect to each mean, (k,)."""


class EstimatorDefaults:
    """Defaults: an unbiased estimator without a model that uses all terms."""

    needs_model: ClassVar[bool] = False
    biased: ClassVar[bool] = False
    has_standard_error: ClassVar[bool] = True

    def select_terms(self, moments: Moments) -> slice:  # noqa: ARG002
        return slice(None)


class MeanEstimator(EstimatorDefaults):
    """An estimate that is the mean of one term."""

    def combine(self, means: Floats) -> Floats:
        return means[..., 0]

    def gradient(self, mean: Floats) -> Floats:  # noqa: ARG002
        return np.ones(1)


class RatioEstimator(EstimatorDefaults):
    """An estimate that is the ratio of two means."""

    def combine(self, means: Floats) -> Floats:
        """Return the ratio; NaN if the second mean is not above 0."""
        return ratio(means[..., 0], means[..., 1])

    def gradient(self, mean: Floats) -> Floats:
        """Return 1/b and -a/b^2 for the ratio a/b."""
        return np.array([ratio(np.ones(()), mean[1]), -ratio(mean[0], mean[1] ** 2)])


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Divide; NaN where bottom is not above 0."""
    quotient: Floats = np.divide(top, bottom, out=np.full(np.shape(bottom), np.nan), where=np.asarray(bottom) > 0.0)
    return quotient


def normal_interval(estimator: Estimator, moments: Moments, level: float) -> Interval:
    """Return the normal interval, which is valid for many rows without very large weights.

    The quantile is that of Student's t with the number of groups minus 1 degrees of freedom.
    """
    if moments.groups < 2 or not estimator.has_standard_error:
        return UNKNOWN_INTERVAL
    value = float(estimator.combine(moments.mean))
    half_width = float(stdtrit(moments.groups - 1, 0.5 + level / 2))
    half_width *= moments.standard_error(estimator.gradient(moments.mean))
    return Interval(value - half_width, value + half_width)
