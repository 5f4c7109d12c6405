"""Intervals: how far the truth may be from an estimate."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from glbandits.evaluation.estimators.estimator import Estimator
from glbandits.evaluation.estimators.grouped_moments import Moments

DRAWS = 1000
"""Bootstrap samples."""


class Interval(NamedTuple):
    """Between two numbers."""

    low: float
    high: float


UNKNOWN = Interval(math.nan, math.nan)


def normal_interval(estimator: Estimator, moments: Moments, level: float) -> Interval:
    """The estimate and so many standard errors either side: right for many rows and no huge weight.

    Student's t says how many, so that few groups of rows are not trusted too much.
    """
    if moments.groups < 2:
        return UNKNOWN
    value = float(estimator.combine(moments.mean))
    reach = float(stdtrit(moments.groups - 1, 0.5 + level / 2))
    reach *= moments.standard_error(estimator.gradient(moments.mean))
    return Interval(value - reach, value + reach)


def bootstrap_interval(estimator: Estimator, moments: Moments, level: float, seed: int) -> Interval:
    """The middle of what the estimate would be with groups of rows drawn again, with replacement."""
    if moments.groups < 2:
        return UNKNOWN
    values = estimator.combine(moments.resampled_means(DRAWS, np.random.default_rng(seed)))
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(low), float(high))
