"""Confidence sequences: intervals for a running mean that hold at all rows at once.

Let X_1, X_2, ... be random numbers, mu_i = E[X_i | past] their conditional means, and m_i centres that depend only on
the past. For a bet l > 0 with l (X_i - m_i) > -1,

    E[1 + l (X_i - m_i) | past] = 1 + l (mu_i - m_i) <= exp(l (mu_i - m_i)),

so the capital prod_i (1 + l (X_i - m_i)) exp(l (m_i - mu_i)) is a nonnegative supermartingale that starts at 1. By
Ville's inequality, the probability that it ever exceeds 1 / alpha is at most alpha. While it does not, the running mean
of mu is at least

    (sum_i m_i + sum_i log(1 + l (X_i - m_i)) / l - log(1 / alpha) / l) / n.

There are no assumptions about changes of mu_i, independence, or the largest X_i. Only a lower bound of X_i is needed
(Mineiro 2022, arXiv:2210.11133). No bet is good for every n, so the capital is divided among a grid of bets. A mixture
of supermartingales is a supermartingale. The state has only a few sums per bet.

X_i is a doubly robust estimate of a difference between policies. Its predictions are limited where a weight is large,
so that X_i is bounded below for any weight (after Waudby-Smith et al., arXiv:2210.10768).
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import types
from scipy.optimize import brentq

from glbandits.common.arrays import Floats, Ints
from glbandits.compilation.entry_point import entry_point
from glbandits.compilation.numba_support import READ_INTS, READ_MATRIX, READ_VECTOR, VECTOR, borrowed, jittable
from glbandits.compilation.recipe import Recipe
from glbandits.maths.online_statistics.mergeable import Mergeable, added, merged

LARGEST_LOSS = 0.7
"""That of `GRID`, see `BetGrid.largest_loss`."""
BETS: Floats = np.ldexp(LARGEST_LOSS, -np.arange(14))
"""The grid of bets l: the best one for n rows of variance s^2 is about 3 / (s sqrt(n))."""
_SHARES = np.exp(-np.square(np.arange(14) - 4.5) / 10.0) + 0.02
LOG_SHARES: Floats = np.log(_SHARES / _SHARES.sum())
"""Logarithms of the shares of the capital, for s sqrt(n) from 8 to 1,000.

There an interval is at most 1.9 times as wide as a normal one, as long as no predictions are clipped."""
PRIOR_ROWS = 10.0
"""The weight, in rows, of the middle of the range in the centres."""
LOGARITHM_EVERY, LARGE_WEIGHT = 16, 1e6
"""The number of factors per logarithm, and the weight above which a logarithm is taken at once."""
ROWS, TERMS, CENTRES = range(3)
"""Indices of the sums of a `LowerSequence`: number of rows, terms without limit, and centres."""


class BetGrid(NamedTuple):
    """A grid of bets, from the largest to the smallest, and the logarithms of their shares of the capital."""

    bets: Floats
    log_shares: Floats
    largest_loss: float = LARGEST_LOSS
    """The largest share of its capital that a bet can lose in one row, below 1.

    Less clips the predictions of large bets more, which is worse if rewards have little noise and better otherwise."""


GRID = BetGrid(BETS, LOG_SHARES)


class SequenceRows(NamedTuple):
    """The arguments of `ConfidenceSequence.add` as contiguous arrays."""

    measure: Floats
    reach: Floats
    chosen: Ints
    weights: Floats
    rewards: Floats
    predicted: Floats
    offset: Floats


class LowerSequence(Mergeable):
    """A lower confidence sequence for a running mean between `low` and `high`.

    Each bet has its own terms X_i. All have the same conditional mean. Those of bet j are at least `low - limits[j]`.
    """

    rules: ClassVar = added("_sums", "log_capital")

    def __init__(self, low: float, high: float, grid: BetGrid = GRID) -> None:
        self.low, self.high, self._log_shares = low, high, grid.log_shares
        # With a larger bet, a term of `low` where `high` was expected would lose more than the largest loss.
        self.bets: Floats = np.minimum(grid.bets, grid.largest_loss / (high - low))
        self.limits: Floats = grid.largest_loss / self.bets - (high - low)
        self._sums: Floats = np.zeros(3)
        self.log_capital: Floats = np.zeros(len(grid.bets))

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return int(self._sums[ROWS])

    def add(self, rows: "SequenceRows", sign: float) -> None:
        """Add rows, with measure, weights and offset multiplied by `sign`, 1 or -1."""
        add = entry_point(add_recipe).run
        add(self._sums, self.log_capital, self.bets, self.limits, self.low, self.high, *rows, sign)

    def state(self) -> list[float]:
        """The numbers from which `set_state` restores the sequence."""
        return [*self._sums.tolist(), *self.log_capital.tolist()]

    def set_state(self, state: Sequence[float]) -> None:
        """Restore a saved state."""
        self._sums, self.log_capital = (np.array(part, dtype=np.float64) for part in (state[:3], state[3:]))

    def log_evidence(self, value: float) -> float:
        """The logarithm of the evidence against a running mean of at most `value`.

        The evidence is the capital of the bets. If the hypothesis is true, its logarithm stays below log(1 / alpha) at
        all rows with probability 1 - alpha.
        """
        log_capital = self._log_shares + self.log_capital + self.bets * (self._sums[CENTRES] - self._sums[ROWS] * value)
        return float(np.logaddexp.reduce(log_capital))

    def bound(self, alpha: float) -> float:
        """The lower bound.

        With probability 1 - alpha, the bounds at all rows are below the running means.
        """

        def excess(value: float) -> float:
            return self.log_evidence(value) - math.log(1.0 / alpha)

        if excess(self.low) <= 0.0:
            return self.low
        return self.high if excess(self.high) > 0.0 else float(brentq(excess, self.low, self.high, xtol=1e-9))


class ConfidenceSequence(Mergeable):
    """A confidence sequence for the value of a policy, or a difference between policies.

    Rewards and predictions must be between 0 and 1.

    Sequences of consecutive parts of the rows can be merged. The centres of a part depend only on its own earlier rows,
    so the merged sequence is valid too. The first few rows of each part have centres that are less good.

    Args:
        low: the smallest possible mean: 0 for the value of a policy, -1 for a difference.
        grid: the bets.
    """

    rules: ClassVar = {"above": merged, "below": merged} | added("_sum")

    def __init__(self, low: float, grid: BetGrid = GRID) -> None:
        self.above = LowerSequence(low, 1.0, grid)
        """The sequence that bounds the mean from below."""
        self.below = LowerSequence(-1.0, -low, grid)
        """The sequence that bounds the mean times -1 from below."""
        self._sum = 0.0

    @classmethod
    def from_state(cls, low: float, state: Sequence[float], grid: BetGrid = GRID) -> "ConfidenceSequence":
        """Restore a sequence from the result of `state`, of the same grid.

        An empty state has no rows.
        """
        sequence = cls(low, grid)
        if state:
            middle = (len(state) + 1) // 2
            sequence._sum = state[0]
            sequence.above.set_state(state[1:middle])
            sequence.below.set_state(state[middle:])
        return sequence

    def state(self) -> tuple[float, ...]:
        """The numbers from which `from_state` restores the sequence."""
        return (self._sum, *self.above.state(), *self.below.state())

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self.above.rows

    @property
    def mean(self) -> float:
        """The doubly robust estimate; NaN before the first row."""
        return self._sum / self.rows if self.rows else math.nan

    def add(
        self,
        *,
        measure: Floats,
        reach: Floats | None,
        chosen: Ints,
        weights: Floats,
        rewards: Floats,
        predicted: Floats,
        offset: Floats | float = 0.0,
    ) -> None:
        """Add rows whose conditional mean is sum_a measure(a) E[reward of a] + E[offset].

        Args:
            measure: pi(a) for the value of pi, pi(a) - b(a) for the difference between pi and b; (rows, arms).
            reach: an upper bound of |measure(a)| / p(a), (rows, arms). If None, predictions are not used.
            chosen: index of the chosen arm, (rows,).
            weights: measure / p of the chosen arm, (rows,).
            rewards: (rows,).
            predicted: predicted rewards of a model that has not learned from these or later rows, (rows, arms).
            offset: a number for each row, (rows,), or 0.
        """
        chosen_predicted = predicted[np.arange(len(chosen)), chosen]
        expected = np.einsum("ra,ra->r", measure, predicted)
        self._sum += float((expected + weights * (rewards - chosen_predicted) + offset).sum())
        arrays = SequenceRows(
            measure=np.ascontiguousarray(measure),
            reach=np.zeros_like(predicted) if reach is None else np.ascontiguousarray(reach),
            chosen=np.ascontiguousarray(chosen, dtype=np.int64),
            weights=np.ascontiguousarray(weights),
            rewards=np.ascontiguousarray(rewards),
            predicted=np.ascontiguousarray(predicted),
            offset=np.full(len(chosen), offset),
        )
        for sequence, sign in ((self.above, 1.0), (self.below, -1.0)):
            # Without a bound of the weights, use predictions without loss: 0 for w > 0, 1 for w < 0.
            safe = arrays.predicted if reach is not None else np.where(sign * measure > 0.0, 0.0, 1.0)
            sequence.add(arrays._replace(predicted=safe), sign)

    def interval(self, level: float) -> tuple[float, float]:
        """Lower and upper bound.

        With probability `level`, the intervals at all rows cover the running means.
        """
        alpha = (1.0 - level) / 2.0
        return self.above.bound(alpha), -self.below.bound(alpha)


def rows_to_exclude_zero(rows: int, value: float, low: float, high: float) -> float:
    """An estimate of the total number of rows until the interval excludes 0; may be infinite.

    Assumes that the estimate stays the same, and that the interval shrinks as 1 / sqrt(rows).

    >>> rows_to_exclude_zero(100, 0.1, -0.1, 0.3)
    400.0
    """
    if not low <= 0.0 <= high:
        return float(rows)
    reach = value - low if value > 0.0 else high - value
    return rows * (reach / abs(value)) ** 2 if value else math.inf


@jittable
def limited_term(
    measure: Floats, reach: Floats, chosen: int, weight: float, reward: float, predicted: Floats, sign: float, k: float
) -> float:
    """The doubly robust term sum_a m(a) q(a) + w (r - q), with clipped predictions.

    The term is at most k below the smallest mean. The part of the chosen arm is w (r - q). It is at least -k if
    q <= k / w for w > 0, and q >= 1 - k / |w| for w < 0. Predictions are clipped to these bounds. The mean of a term
    does not depend on the predictions.
    """
    expected, chosen_prediction = 0.0, 0.0
    for arm in range(len(measure)):
        room = k / reach[arm] if reach[arm] > k else 1.0
        clipped = min(predicted[arm], room) if sign * measure[arm] > 0.0 else max(predicted[arm], 1.0 - room)
        expected += sign * measure[arm] * clipped
        if arm == chosen:
            chosen_prediction = clipped
    return expected + sign * weight * (reward - chosen_prediction)


@jittable
def unlimited_term(
    measure: Floats, reach: Floats, chosen: int, weight: float, reward: float, predicted: Floats, sign: float
) -> tuple[float, float]:
    """The term without clipped predictions, and its largest distance below the smallest mean."""
    expected, largest = 0.0, 0.0
    for arm in range(len(measure)):
        signed = sign * measure[arm]
        expected += signed * predicted[arm]
        if signed != 0.0:
            loss = predicted[arm] if signed > 0.0 else 1.0 - predicted[arm]
            if loss > 0.0:
                largest = max(largest, reach[arm] * loss)
    return expected + sign * weight * (reward - predicted[chosen]), largest


def add_recipe() -> Recipe:
    """The recipe of a function that adds rows to a `LowerSequence`, in place."""

    def add(
        sums: Floats,
        log_capital: Floats,
        bets: Floats,
        limits: Floats,
        low: float,
        high: float,
        measure: Floats,
        reach: Floats,
        chosen: Ints,
        weights: Floats,
        rewards: Floats,
        predicted: Floats,
        offset: Floats,
        sign: float,
    ) -> None:
        measure, reach, predicted = borrowed(measure), borrowed(reach), borrowed(predicted)
        capital = np.ones(len(bets))  # since the last logarithm
        for row in range(len(chosen)):
            centre = (PRIOR_ROWS * (low + high) / 2.0 + sums[TERMS]) / (PRIOR_ROWS + sums[ROWS])
            centre = min(max(centre, low), high)
            at = (measure[row], reach[row], chosen[row], weights[row], rewards[row], predicted[row], sign)
            term, largest = unlimited_term(*at)
            term += sign * offset[row]
            first = 0
            while first < len(bets) and largest > limits[first]:  # limits increase
                limited = limited_term(*at, limits[first]) + sign * offset[row]
                capital[first] *= 1.0 + bets[first] * (limited - centre)
                first += 1
            for bet in range(first, len(bets)):
                capital[bet] *= 1.0 + bets[bet] * (term - centre)
            sums[ROWS] += 1.0
            sums[TERMS] += term
            sums[CENTRES] += centre
            if (row + 1) % LOGARITHM_EVERY == 0 or row == len(chosen) - 1 or abs(weights[row]) > LARGE_WEIGHT:
                for bet in range(len(bets)):
                    log_capital[bet] += math.log(capital[bet])
                    capital[bet] = 1.0

    arrays = (READ_MATRIX, READ_MATRIX, READ_INTS, READ_VECTOR, READ_VECTOR, READ_MATRIX, READ_VECTOR)
    number = types.float64
    signature = types.void(VECTOR, VECTOR, READ_VECTOR, READ_VECTOR, number, number, *arrays, number)
    return Recipe(add, signature, "confidence sequence", work=_work)


def _work(_sums: Floats, _log: Floats, bets: Floats, *rows: Any) -> float:
    return float(rows[3].shape[0] * (4 * rows[3].shape[1] + len(bets)))
