"""Confidence sequences: intervals for a running mean that hold at every look, however the data were collected.

Let X_1, X_2, ... be random numbers, mu_i = E[X_i | past] their conditional means, and m_i centres that depend only on
the past. For a bet l > 0 with l (X_i - m_i) > -1,

    E[1 + l (X_i - m_i) | past] = 1 + l (mu_i - m_i) <= exp(l (mu_i - m_i)),

so the capital prod_i (1 + l (X_i - m_i)) exp(l (m_i - mu_i)) is a nonnegative supermartingale that starts at 1. By
Ville's inequality it ever exceeds 1 / alpha with probability at most alpha. Until then the running mean of mu is at
least

    (sum_i m_i + sum_i log(1 + l (X_i - m_i)) / l - log(1 / alpha) / l) / n.

Nothing is assumed about how mu_i changes, about independence, or about the largest X_i: only X_i must be bounded below
(Mineiro 2022, arXiv:2210.11133). No bet suits every n, so the capital is spread over a grid of bets (a mixture of
supermartingales is one), and only a few sums per bet are kept.

X_i is a doubly robust estimate of a difference between policies. Its model is limited where a weight is large, so that
X_i is bounded below for any weight (after Waudby-Smith et al., arXiv:2210.10768).
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from glbandits.records import Floats, Ints

BETS: Floats = np.ldexp(0.25, -np.arange(12))
"""The grid of bets l: the best one for n rows of variance s^2 is about 3 / (s sqrt(n))."""
_SHARES = np.exp(-np.square(np.arange(12) - 4.0) / 8.0) + 0.02
LOG_SHARES: Floats = np.log(_SHARES / _SHARES.sum())
"""Logarithms of the shares of the capital. Most is on bets that suit 1,000 to 100,000 rows."""
GRID_VERSION = 1
"""Increase it with every change of `BETS` or `LOG_SHARES`: a saved state is of no use with others."""
LARGEST_LOSS = 0.5
"""The largest share of its capital that a bet can lose in one row."""
PRIOR_ROWS = 10.0
"""How many rows the middle of the range counts for in the centres."""


class LowerSequence:
    """A lower confidence sequence for the running mean of conditional means that lie between `low` and `high`.

    Each bet has its own terms X_i: all have the same conditional mean, those of bet j are at least `low - limits[j]`.
    """

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.limits: Floats = LARGEST_LOSS / BETS - (high - low)
        self.rows = 0
        self.term_sum = 0.0
        self.centre_sum = 0.0
        self.log_capital: Floats = np.zeros(len(BETS))

    def add(self, terms: Floats) -> None:
        """Add the terms of the next rows, (bets, rows)."""
        rows = terms.shape[1]
        before = self.term_sum + np.cumsum(terms[-1]) - terms[-1]
        middle = PRIOR_ROWS * (self.low + self.high) / 2.0
        centres = (middle + before) / (PRIOR_ROWS + np.arange(self.rows, self.rows + rows))
        np.clip(centres, self.low, self.high, out=centres)
        self.log_capital += np.log1p(BETS[:, np.newaxis] * (terms - centres)).sum(axis=1)
        self.rows += rows
        self.term_sum += float(terms[-1].sum())
        self.centre_sum += float(centres.sum())

    def state(self) -> list[float]:
        """Return all that `set_state` needs to go on from here."""
        return [float(self.rows), self.term_sum, self.centre_sum, *self.log_capital.tolist()]

    def set_state(self, state: Sequence[float]) -> None:
        """Go on from a saved state."""
        self.rows, self.term_sum, self.centre_sum = int(state[0]), state[1], state[2]
        self.log_capital = np.array(state[3:], dtype=np.float64)

    def log_evidence(self, value: float) -> float:
        """Return the logarithm of the capital won against "the running mean is at most `value`".

        With probability 1 - alpha it stays below log(1 / alpha) for ever if that is true.
        """
        return float(np.logaddexp.reduce(LOG_SHARES + self.log_capital + BETS * (self.centre_sum - self.rows * value)))

    def bound(self, alpha: float) -> float:
        """Return the lower bound: with probability 1 - alpha no bound ever exceeds the running mean at its row."""

        def excess(value: float) -> float:
            return self.log_evidence(value) - math.log(1.0 / alpha)

        if excess(self.low) <= 0.0:
            return self.low
        return self.high if excess(self.high) > 0.0 else float(brentq(excess, self.low, self.high, xtol=1e-9))


class ConfidenceSequence:
    """A confidence sequence for the running mean of a difference between policies: a lower sequence on either side.

    Rewards and predictions are between 0 and 1.

    Args:
        low: the least value that the mean can have: 0 for the value of a policy, -1 for a difference.
    """

    def __init__(self, low: float) -> None:
        self.above = LowerSequence(low, 1.0)
        """Bounds the mean from below."""
        self.below = LowerSequence(-1.0, -low)
        """Bounds the mean times -1 from below."""
        self._sum = 0.0

    @classmethod
    def from_state(cls, low: float, state: Sequence[float]) -> "ConfidenceSequence":
        """Go on from a state that `state` returned under the same `GRID_VERSION`; an empty one is the beginning."""
        sequence = cls(low)
        if state:
            middle = (len(state) + 1) // 2
            sequence._sum = state[0]
            sequence.above.set_state(state[1:middle])
            sequence.below.set_state(state[middle:])
        return sequence

    def state(self) -> tuple[float, ...]:
        """Return a few numbers from which `from_state` makes the same sequence again."""
        return (self._sum, *self.above.state(), *self.below.state())

    @property
    def rows(self) -> int:
        """Rows so far."""
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
            reach: an upper bound of |measure(a)| / p(a), (rows, arms). None if none is known, and
                predictions are then not used.
            chosen: index of the chosen arm, (rows,).
            weights: measure / p of the chosen arm, (rows,).
            rewards: (rows,).
            predicted: rewards that a model expects, which has not learned from these rows or later ones; (rows, arms).
            offset: a number for each row, (rows,), or 0.
        """
        self._sum += float((_terms(measure, chosen, weights, rewards, predicted) + offset).sum())
        up = _limited_terms(measure, reach, chosen, weights, rewards, predicted, self.above.limits)
        self.above.add(up + offset)
        down = _limited_terms(-measure, reach, chosen, -weights, rewards, predicted, self.below.limits)
        self.below.add(down - offset)

    def interval(self, level: float) -> tuple[float, float]:
        """Return bounds that all hold at once, at every row, with probability `level`."""
        alpha = (1.0 - level) / 2.0
        return self.above.bound(alpha), -self.below.bound(alpha)


def rows_to_exclude_zero(rows: int, value: float, low: float, high: float) -> float:
    """About how many rows are needed in all until the sign is known, if the estimate is right; may be infinite.

    Intervals shrink like 1 / sqrt(rows).

    >>> rows_to_exclude_zero(100, 0.1, -0.1, 0.3)
    400.0
    """
    if not low <= 0.0 <= high:
        return float(rows)
    reach = value - low if value > 0.0 else high - value
    return rows * (reach / abs(value)) ** 2 if value else math.inf


def _limited_terms(
    measure: Floats,
    reach: Floats | None,
    chosen: Ints,
    weights: Floats,
    rewards: Floats,
    predicted: Floats,
    limits: Floats,
) -> Floats:
    """Doubly robust terms, (limits, rows), that are at most a limit k below the least mean.

    The chosen arm's part is w (r - q). It is at least -k if q <= k / w where w > 0, and q >= 1 - k / |w| where w < 0.
    Predictions beyond that are moved there. The mean of a term stays the same, whatever the predictions are.
    """
    is_positive = measure > 0.0
    if reach is None:
        safe = np.where(is_positive, 0.0, 1.0)
        return np.tile(_terms(measure, chosen, weights, rewards, safe), (len(limits), 1))
    loss = np.where(is_positive, predicted, 1.0 - predicted)
    largest_loss = np.multiply(reach, loss, out=np.zeros_like(loss), where=(measure != 0.0) & (loss > 0.0)).max(axis=1)
    terms = np.tile(_terms(measure, chosen, weights, rewards, predicted), (len(limits), 1))
    for limit, row_terms in zip(limits, terms, strict=True):
        rows = np.flatnonzero(largest_loss > limit)
        room = np.divide(limit, reach[rows], out=np.ones((len(rows), reach.shape[1])), where=reach[rows] > limit)
        moved = np.where(is_positive[rows], np.minimum(predicted[rows], room), np.maximum(predicted[rows], 1.0 - room))
        row_terms[rows] = _terms(measure[rows], chosen[rows], weights[rows], rewards[rows], moved)
    return terms


def _terms(measure: Floats, chosen: Ints, weights: Floats, rewards: Floats, predicted: Floats) -> Floats:
    """Return sum_a measure(a) q(a) + w (r - q) for each row."""
    expected: Floats = np.einsum("ra,ra->r", measure, predicted)
    return expected + weights * (rewards - predicted[np.arange(len(chosen)), chosen])
