"""LargeWeights: the expected number of rows with a weight near the largest possible one."""

from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats

BINS_PER_DOUBLING = 64
"""Bins of the histogram per doubling of the weight: thresholds are exact within 1.6 %."""
EXPONENTS = 1100
"""Powers of two above and below 1: more than the range of float64."""
MIN_ROWS = 10
"""Number of rows below which large weights count as rarely observed."""
MIN_SHARE = 0.1
"""Share of the mean squared weight below which rare large weights do not matter."""


@dataclass(frozen=True)
class LargeWeights:
    """Statistics of the weights that are at least half of the largest possible weight."""

    largest: float
    """The largest possible weight: over all rows and arms; or, if the log has only propensities, the target's largest
    probability divided by the least propensity."""
    rows: float
    """Number of rows with at least half of that weight: expected; or observed, if the log has only propensities."""
    share: float
    """Their share of the expected mean squared weight; NaN if the log has only propensities."""

    @property
    def rarely_observed(self) -> bool:
        """Whether estimates depend on weights that are rarely observed."""
        return self.rows < MIN_ROWS and not self.share <= MIN_SHARE


class LargeWeightSums:
    """Histogram of rows and squared weights by weight, accumulated over blocks."""

    def __init__(self) -> None:
        self.largest = 0.0
        self._sums = np.zeros((2, 2 * EXPONENTS * BINS_PER_DOUBLING))

    def add(self, weights: Floats, rows: Floats) -> None:
        """Add positive weights, and the expected number of rows of each; arrays of any shape."""
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        near = weights >= self.largest / 2.0
        bins = _bins(weights[near])
        for sums, terms in zip(self._sums, (rows[near], rows[near] * weights[near] ** 2), strict=True):
            sums += np.bincount(bins, weights=terms, minlength=len(sums))

    def from_weight(self, weight: float) -> tuple[float, float]:
        """Return the number of rows of at least this weight, and the sum of w^2 over them.

        Both are exact only if `weight` is at least half of the largest weight.
        """
        rows, squares = self._sums[:, int(_bins(np.array([weight]))[0]) :].sum(axis=1).tolist()
        return rows, squares


def _bins(weights: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of each weight. Half of a weight is exactly `BINS_PER_DOUBLING` bins below it."""
    mantissa, exponent = np.frexp(weights)
    bins: np.ndarray[tuple[int], np.dtype[np.int64]] = (exponent.astype(np.int64) + EXPONENTS) * BINS_PER_DOUBLING
    bins += (2 * BINS_PER_DOUBLING * mantissa).astype(np.int64) - BINS_PER_DOUBLING
    return bins
