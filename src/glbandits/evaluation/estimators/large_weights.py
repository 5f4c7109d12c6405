"""Large weights: how many rows of a log are expected to have weights near the largest one that is possible."""

from dataclasses import dataclass

import numpy as np

from glbandits.records import Floats

STEPS = 64
"""Bins of the histogram for each doubling of the weight: thresholds are right within 1.6 %."""
EXPONENTS = 1100
"""Powers of two to either side of 1, more than a float64 has."""
ENOUGH = 10
"""Rows with large weights below which they have hardly been seen."""
MATTERS = 0.1
"""Part of the mean squared weight below which it does not matter that large weights are rare."""


@dataclass(frozen=True)
class LargeWeights:
    """Weights of at least half of the largest one."""

    largest: float
    """The largest possible weight: of all rows and arms, or of the target's largest probability and the least one of
    the log if only the propensities of the chosen arms are known."""
    rows: float
    """Rows with at least half of it: the expected number, or the realised one if only propensities are known."""
    share: float
    """How much of the expected mean squared weight is due to them; NaN if only propensities are known."""

    @property
    def hardly_seen(self) -> bool:
        """Whether estimates hang on weights that hardly any row has."""
        return self.rows < ENOUGH and not self.share <= MATTERS


class LargeWeightSums:
    """Add up rows and squared weights by weight, over blocks, for the weights of at least half of the largest."""

    def __init__(self) -> None:
        self.largest = 0.0
        self._sums = np.zeros((2, 2 * EXPONENTS * STEPS))

    def add(self, weights: Floats, rows: Floats) -> None:
        """Add weights above 0, and in how many rows each is expected; any shape."""
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        near = weights >= self.largest / 2.0
        bins = _bins(weights[near])
        for sums, terms in zip(self._sums, (rows[near], rows[near] * weights[near] ** 2), strict=True):
            sums += np.bincount(bins, weights=terms, minlength=len(sums))

    def from_weight(self, weight: float) -> tuple[float, float]:
        """Rows with at least this weight, half of the largest or more, and the sum of their squared weights."""
        rows, squares = self._sums[:, int(_bins(np.array([weight]))[0]) :].sum(axis=1).tolist()
        return rows, squares


def _bins(weights: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of each weight. Half of a weight is exactly `STEPS` bins below it."""
    mantissa, exponent = np.frexp(weights)
    bins: np.ndarray[tuple[int], np.dtype[np.int64]] = (exponent.astype(np.int64) + EXPONENTS) * STEPS
    bins += (2 * STEPS * mantissa).astype(np.int64) - STEPS
    return bins
