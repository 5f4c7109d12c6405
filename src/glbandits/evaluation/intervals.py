"""Intervals: how far the truth may be from an estimate."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from glbandits.evaluation.estimator import Estimator, Range
from glbandits.evaluation.moments import Moments

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


def bernstein_interval(estimator: Estimator, moments: Moments, level: float, known: Range) -> Interval | str:
    """An interval that holds for any number of rows (Maurer and Pontil 2009), or why there is none.

    With n independent terms between a and b, of mean m and sample variance s^2, the truth is outside of
    m +- (sqrt(2 s^2 L / n) + 7 (b - a) L / (3 (n - 1))), L = log(4 / (1 - level)), with a chance of at most 1 - level.
    """
    bounds = estimator.bounds(known)
    if bounds is None:
        return "none: not a mean without bias"
    if not all(map(math.isfinite, bounds)):
        return "rewards have no bounds; give reward_range"
    if moments.grouped:
        # A group's rows may all be alike, so the groups are the terms: each a sum, in units of the mean size.
        size = moments.rows / moments.groups
        terms = moments.sums[:, 0] / size
        n, width = moments.groups, (bounds[1] - bounds[0]) * float(moments.counts.max()) / size
        variance = float(terms.var(ddof=1)) if n > 1 else math.nan
    else:
        n, width = moments.rows, bounds[1] - bounds[0]
        mean = float(moments.mean[0])
        variance = max(float(moments.squares[0]) - n * mean * mean, 0.0) / (n - 1) if n > 1 else math.nan
    if n < 2:
        return "fewer than two independent rows"
    value, log = float(estimator.combine(moments.mean)), math.log(4.0 / (1.0 - level))
    reach = math.sqrt(2.0 * variance * log / n) + 7.0 * width * log / (3.0 * (n - 1))
    return Interval(value - reach, value + reach)
