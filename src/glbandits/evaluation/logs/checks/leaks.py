"""Whether a column of the context was known only after the decision.

What is known before a decision cannot depend on it. So with weights 1 / p, the mean of a column is the same for each
arm. A column that was filled in later, such as the status of an order, depends on the reward, and so on the arm: its
weighted means differ. A column that tells the reward almost exactly is in doubt too, also if all arms are equal.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind
from glbandits.maths.online_statistics.mergeable import Mergeable, added

MAX_COLUMNS, MAX_ARMS = 256, 32
"""The largest numbers of features of the context and of arms that are checked: the first ones."""
ERRORS = 5.0
"""The number of standard errors from which on a weighted mean differs, and a column depends on the reward."""
LEAST_SAMPLE = 100.0
"""The effective number of rows of an arm from which on its weighted means are compared."""
MOST_EXPLAINED = 0.8
"""The share of the variance of the rewards that a feature known before the decision may explain."""


class ContextSums(Mergeable):
    """Accumulates moments of the context, of rewards and of weights."""

    rules: ClassVar = added("_rows", "_x", "_xx", "_r", "_rr", "_xr", "_w", "_ww", "_moments") | {
        "usable": np.logical_and
    }

    def __init__(self, width: int, arms: int) -> None:
        self._width, self._arms = min(width, MAX_COLUMNS), min(arms, MAX_ARMS)
        self._rows, self._r, self._rr = 0, 0.0, 0.0
        self._x, self._xx, self._xr = np.zeros((3, self._width))
        self._w, self._ww = np.zeros((2, self._arms))
        self._moments = np.zeros((4, self._width, self._arms))
        """Sums of x w, x^2 w, x w^2 and x^2 w^2."""
        self.usable: Bools = np.ones(self._width, dtype=bool)
        """Features that do not differ between the arms of a row."""

    def add(self, contexts: Floats, arms: Ints, rewards: Floats, propensities: Floats) -> None:
        """Add rows: the context (n, width), chosen arms, rewards and propensities."""
        x = contexts[:, : self._width]
        weights = np.where(arms[:, np.newaxis] == np.arange(self._arms), 1.0 / propensities[:, np.newaxis], 0.0)
        squares, squared_weights = x * x, weights * weights
        self._rows += len(x)
        self._x, self._xx = self._x + x.sum(axis=0), self._xx + squares.sum(axis=0)
        self._r, self._rr = self._r + float(rewards.sum()), self._rr + float(rewards @ rewards)
        self._xr = self._xr + rewards @ x
        self._w, self._ww = self._w + weights.sum(axis=0), self._ww + squared_weights.sum(axis=0)
        self._moments = self._moments + np.stack(
            [x.T @ weights, squares.T @ weights, x.T @ squared_weights, squares.T @ squared_weights]
        )

    def doubts(self, name_of: Callable[[int], str]) -> list[Doubt]:
        """Return a doubt for each leaked column.

        Args:
            name_of: returns the name of the column of a feature.
        """
        if self._rows < LEAST_SAMPLE or not self._width:
            return []
        names: dict[str, str] = {}
        explained, unbalanced = self._explained(), self._unbalanced()
        predicts = explained * self._rows > ERRORS**2
        for index in np.flatnonzero(self.usable & ((explained > MOST_EXPLAINED) | (unbalanced & predicts))):
            share = f"it alone explains {explained[index]:.0%} of the variance of the rewards"
            differs = "it differs between arms although the propensities weight them"
            names.setdefault(name_of(int(index)), differs if unbalanced[index] else share)
        return [_doubt(name, how) for name, how in names.items()]

    def _explained(self) -> Floats:
        """The share of the variance of the rewards that each feature explains."""
        n = self._rows
        covariance = self._xr - self._x * self._r / n
        spread = np.maximum(self._xx - self._x**2 / n, 0.0) * max(self._rr - self._r**2 / n, 0.0)
        shares: Floats = np.divide(covariance**2, spread, out=np.zeros(self._width), where=spread > 1e-12)
        return shares

    def _unbalanced(self) -> Bools:
        """Whether the weighted mean of a feature differs between arms.

        Only arms with a mean weight of 1 are compared: others were not offered in all rows.
        """
        n, means = self._rows, self._x / self._rows
        xw, xxw, xww, xxww = self._moments
        m = means[:, np.newaxis]
        deviations = xw - m * self._w
        own = np.maximum(self._xx - n * means**2, 0.0)[:, np.newaxis]
        once = xxw - 2 * m * xw + m * m * self._w
        twice = xxww - 2 * m * xww + m * m * self._ww
        errors = np.sqrt(np.maximum(twice - 2 * once + own, 0.0))
        error_of_weights = np.sqrt(np.maximum(self._ww - 2 * self._w + n, 0.0))
        comparable = (np.abs(self._w - n) <= 4.0 * error_of_weights) & (self._w**2 >= LEAST_SAMPLE * self._ww)
        found: Bools = np.any((np.abs(deviations) > ERRORS * errors) & (errors > 1e-9) & comparable, axis=1)
        return found


def _doubt(name: str, how: str) -> Doubt:
    text = (
        f"{name}: was it known before the decision? Of the chosen arms, {how}. Leave it out if it was filled in later, "
        "such as a status; otherwise correct the propensities"
    )
    return Doubt(kind=DoubtKind.LEAK, text=text, short=f"{name} may have been known only after the decision")
