"""Whether a column of the context was known only after the decision.

What is known before a decision cannot depend on it. So with weights 1 / p, the mean of a column is the same for each
arm. A column that was filled in later, such as the status of an order, depends on the reward, and so on the arm: its
weighted means differ. A column that tells the reward almost exactly is in doubt too, also if all arms are equal.

Wrong propensities make weighted means differ too, and then nothing in the log can be trusted. They are ruled out if the
reward explains the differences: without the part of the column that depends on the reward, all arms have the same mean.
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
REMAINING = 2.5
"""The largest number of standard errors by which a weighted mean may differ if the reward explains the difference."""


class ContextSums(Mergeable):
    """Accumulates moments of the context, of rewards and of weights."""

    rules: ClassVar = added("_rows", "_x", "_xx", "_r", "_rr", "_xr", "_w", "_ww", "_of_rewards", "_moments") | {
        "usable": np.logical_and
    }

    def __init__(self, width: int, arms: int) -> None:
        self._width, self._arms = min(width, MAX_COLUMNS), min(arms, MAX_ARMS)
        self._rows, self._r, self._rr = 0, 0.0, 0.0
        self._x, self._xx, self._xr = np.zeros((3, self._width))
        self._w, self._ww = np.zeros((2, self._arms))
        self._of_rewards = np.zeros((4, self._arms))
        """Sums of r w, r^2 w, r w^2 and r^2 w^2."""
        self._moments = np.zeros((6, self._width, self._arms))
        """Sums of x w, x^2 w, x w^2, x^2 w^2, x r w and x r w^2."""
        self.usable: Bools = np.ones(self._width, dtype=bool)
        """Features that do not differ between the arms of a row."""

    def add(self, contexts: Floats, arms: Ints, rewards: Floats, propensities: Floats) -> None:
        """Add rows: the context (n, width), chosen arms, rewards and propensities."""
        group = np.minimum(arms, self._arms).astype(np.uint8)  # which NumPy sorts in linear time
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(self._arms + 2))  # the last group has all other arms
        r, w = rewards[order], 1.0 / propensities[order]
        table, weights = np.empty((3 + 3 * self._width, len(r))), np.stack([w, w * w, np.ones_like(w)], axis=1)
        table[0], table[1], table[2] = 1.0, r, r * r
        x, squares, products = np.split(table[3:], 3)
        np.take(contexts[:, : self._width].T, order, axis=1, out=x, mode="clip")
        np.multiply(x, x, out=squares)
        np.multiply(x, r, out=products)
        by_arm = np.zeros((3, len(table), self._arms + 1))
        for arm, own in enumerate(map(slice, ends, ends[1:])):
            by_arm[:, :, arm] = (table[:, own] @ weights[own]).T
        by_arm, totals = by_arm[:2, :, :-1], by_arm[2].sum(axis=1)
        self._rows += len(r)
        self._r, self._rr = self._r + float(totals[1]), self._rr + float(totals[2])
        self._x, self._xx, self._xr = np.array([self._x, self._xx, self._xr]) + totals[3:].reshape(3, -1)
        self._w, self._ww = self._w + by_arm[0, 0], self._ww + by_arm[1, 0]
        self._of_rewards = self._of_rewards + by_arm[:, 1:3].reshape(4, -1)
        moments = by_arm[:, 3:].reshape(2, 3, self._width, self._arms)
        powers = moments[:, :2].reshape(4, self._width, self._arms)
        self._moments = self._moments + np.concatenate([powers, moments[:, 2]])

    def doubts(self, column_of: Callable[[int], tuple[str, range]], *, can_hide: bool = True) -> list[Doubt]:
        """Return a doubt for each leaked column.

        Args:
            column_of: returns the name of the column of a feature, and all its features.
            can_hide: whether the features of a column can be left out of a reward model.
        """
        if self._rows < LEAST_SAMPLE or not self._width:
            return []
        explained, errors = self._explained(), self._errors(of_rest=False)
        unbalanced = errors > ERRORS
        leaked = self.usable & ((explained > MOST_EXPLAINED) | (unbalanced & (explained * self._rows > ERRORS**2)))
        by_reward = self._errors(of_rest=True) <= REMAINING
        can_hide = can_hide and bool(self._have_mean_weight_1.all()) and int(self._comparable.sum()) > 1
        can_hide = can_hide and not (self.usable & ~by_reward & (leaked | unbalanced)).any()
        found: dict[str, Doubt] = {}
        for index in map(int, np.flatnonzero(leaked)):
            name, features = column_of(index)
            share = f"it alone explains {explained[index]:.0%} of the variance of the rewards"
            differs = "it differs between arms although the propensities weight them"
            how = differs if unbalanced[index] else share
            found.setdefault(name, _doubt(name, how, tuple(features) if can_hide else ()))
        return [*found.values()]

    def _explained(self) -> Floats:
        """The share of the variance of the rewards that each feature explains."""
        n = self._rows
        covariance = self._xr - self._x * self._r / n
        spread = np.maximum(self._xx - self._x**2 / n, 0.0) * max(self._rr - self._r**2 / n, 0.0)
        shares: Floats = np.divide(covariance**2, spread, out=np.zeros(self._width), where=spread > 1e-12)
        return shares

    @property
    def _have_mean_weight_1(self) -> Bools:
        """Whether the mean weight of each arm is 1. Else some rows did not offer it, or propensities are wrong."""
        errors = np.sqrt(np.maximum(self._ww - 2 * self._w + self._rows, 0.0))
        found: Bools = np.abs(self._w - self._rows) <= 4.0 * errors
        return found

    @property
    def _comparable(self) -> Bools:
        """The arms whose weighted means are compared."""
        found: Bools = self._have_mean_weight_1 & (self._w**2 >= LEAST_SAMPLE * self._ww)
        return found

    def _errors(self, *, of_rest: bool) -> Floats:
        """The largest number of standard errors by which the weighted mean of a feature differs between arms.

        `of_rest` subtracts from each feature its regression on the rewards.
        """
        n, x, xx = self._rows, self._x, self._xx
        xw, xxw, xww, xxww, xrw, xrww = self._moments
        if of_rest:
            spread = self._rr - self._r**2 / n
            slopes = (self._xr - x * self._r / n) / spread if spread > 0.0 else np.zeros(self._width)
            xx = xx - 2 * slopes * self._xr + slopes**2 * self._rr
            x = x - slopes * self._r
            b, (rw, rrw, rww, rrww) = slopes[:, np.newaxis], self._of_rewards
            xxw, xxww = xxw - 2 * b * xrw + b * b * rrw, xxww - 2 * b * xrww + b * b * rrww
            xw, xww = xw - b * rw, xww - b * rww
        m = (x / n)[:, np.newaxis]
        deviations = np.abs(xw - m * self._w)
        own = np.maximum(xx - x * x / n, 0.0)[:, np.newaxis]
        once = xxw - 2 * m * xw + m * m * self._w
        twice = xxww - 2 * m * xww + m * m * self._ww
        errors = np.sqrt(np.maximum(twice - 2 * once + own, 0.0))
        # The sums of a feature without variance have rounding errors only.
        known = self._comparable & (errors > np.maximum(1e-9, 1e-6 * np.sqrt(np.maximum(self._xx, 0.0))[:, np.newaxis]))
        found: Floats = np.divide(deviations, errors, out=np.zeros_like(deviations), where=known).max(axis=1, initial=0)
        return found


def _doubt(name: str, how: str, features: tuple[int, ...]) -> Doubt:
    text = (
        f"{name}: was it known before the decision? Of the chosen arms, {how}. Leave it out if it was filled in later, "
        "such as a status; otherwise correct the propensities"
    )
    short = f"{name} may have been known only after the decision"
    return Doubt(kind=DoubtKind.LEAK, text=text, short=short, features=features)
