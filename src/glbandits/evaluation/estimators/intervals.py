"""Confidence intervals of estimates: normal and bootstrap."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.grouped_moments import Moments

DEFAULT_LEVEL = 0.95
"""Confidence level of all intervals of evaluations, unless the caller gives another one."""
BOOTSTRAP_DRAWS = 1000
"""Number of bootstrap samples."""


class Interval(NamedTuple):
    """Lower and upper bound."""

    low: float
    high: float


UNKNOWN = Interval(math.nan, math.nan)


def normal_interval(estimator: Estimator, moments: Moments, level: float) -> Interval:
    """Return the normal interval, which is valid for many rows without very large weights.

    The quantile is that of Student's t with the number of groups minus 1 degrees of freedom.
    """
    if moments.groups < 2:
        return UNKNOWN
    value = float(estimator.combine(moments.mean))
    half_width = float(stdtrit(moments.groups - 1, 0.5 + level / 2))
    half_width *= moments.standard_error(estimator.gradient(moments.mean))
    return Interval(value - half_width, value + half_width)


def bootstrap_interval(estimator: Estimator, moments: Moments, level: float, seed: int) -> Interval:
    """Return the percentile bootstrap interval: groups of rows are drawn with replacement."""
    if moments.groups < 2:
        return UNKNOWN
    values = estimator.combine(moments.resampled_means(BOOTSTRAP_DRAWS, np.random.default_rng(seed)))
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(low), float(high))
