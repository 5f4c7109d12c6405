"""Fixed-n intervals of estimates that rest on few rewards, or on few large ones.

A row contributes c = w d to an estimate: its weight w for the measure, times d, its payoff minus that without a reward.
The skewness of sum c is 1 / sqrt(m), where m = (sum c^2)^3 / (sum |c|^3)^2: the number of rewards if all contributions
are equal. With few of them the sample variance is small whenever the estimate is, so that neither Student's t nor
Wilson's interval holds. The sums of positive and of negative contributions are then treated as weighted Poisson sums
(Fay and Feuer 1997): gamma intervals, in which the upper bound counts one more contribution that the log did not draw.
For equal contributions they are the exact intervals of a Poisson count. The two sums are combined as Newcombe (1998)
combines independent samples.

The further contribution is the scale of the skewness of weights, sum |w|^3 / sum w^2, times that of payoffs,
sum |d|^3 / sum d^2: 1 for rewards of 0 and 1, and nearly the largest payoff for heavy tails. If payoffs have no upper
limit and the log has too few of them to know that scale, there is no interval.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from glbandits.common.arrays import Floats
from glbandits.evaluation.estimators.grouped_moments import MomentSums
from glbandits.evaluation.estimators.log_rows import LogRows
from glbandits.evaluation.estimators.support import NO_EVIDENCE
from glbandits.maths.online_statistics.mergeable import Mergeable, added, merged

MAX_CONTRIBUTIONS = 200.0
"""m from which on sums are nearly normal: their skewness is at most 0.07."""
MAX_RARE_SHARE = 0.05
"""m as a share of the effective rows above which rewards are not rare."""
MIN_PAYOFFS = 10.0
"""Effective number of payoffs without a limit that are needed for an interval."""


class RareRewards(NamedTuple):
    """The contributions of few rewards to an estimate; each array has the positive, then the negative ones."""

    sums: Floats
    squares: Floats
    unseen: Floats
    """Size of a contribution that the log did not draw."""
    effective: float
    """m, the effective number of contributions."""
    rows: int
    reason: str
    """Why there is no interval; "" if there is one."""

    def half_widths(self, level: float) -> tuple[float, float]:
        """Return the half-widths of the interval below and above the estimate."""
        error = 0.5 - level / 2
        bounds = [_gamma_half_widths(*each, error) for each in zip(self.sums, self.squares, self.unseen, strict=True)]
        (below, above), (negative_below, negative_above) = bounds
        return math.hypot(below, negative_above) / self.rows, math.hypot(above, negative_below) / self.rows


class RareRewardSums(Mergeable):
    """Accumulates the contributions of rewards to one estimate.

    Args:
        largest: the largest possible payoff above that without a reward, negative if rewards are rarely missing.
    """

    rules: ClassVar = {"_contributions": merged} | added("_weights", "_payoffs")

    def __init__(self, largest: float) -> None:
        self._largest = largest
        self._contributions = MomentSums(2)
        self._weights = np.zeros((2, 3))
        """Sums of |w|, w^2 and |w|^3, for positive and for negative weights."""
        self._payoffs = np.zeros((2, 3))
        """Sums of |d|, d^2 and |d|^3, for positive and for negative payoffs."""

    def add(self, rows: LogRows, payoffs: Floats, weights: Floats, sums_of_weights: Floats) -> None:
        """Add the next rows.

        Args:
            rows: the rows.
            payoffs: d, the payoffs minus those without a reward, (rows,).
            weights: w of the chosen arms, (rows,).
            sums_of_weights: as `sums_of_weights` returns them.
        """
        contributions = weights * payoffs
        rows.add_to(self._contributions, *_parts(contributions))
        self._payoffs += [[part.sum(), (part**2).sum(), (part**3).sum()] for part in _parts(payoffs)]
        self._weights += sums_of_weights

    def rare_rewards(self) -> RareRewards | None:
        """Return the contributions; None if they are not rare."""
        moments = self._contributions.moments()
        sums, squares, cubes = ((moments.sums**power).sum(axis=0) for power in (1, 2, 3))
        effective = float(squares.sum() * (squares.sum() / cubes.sum()) ** 2) if cubes.any() else 0.0
        if not effective < min(MAX_CONTRIBUTIONS, MAX_RARE_SHARE * _effective(*self._weights[:, :2].sum(axis=0))):
            return None
        weights, scales = _ratios(self._weights[:, 2], self._weights[:, 1]), self._payoff_scales()
        unseen = np.maximum(_scaled(weights, scales[0]), _scaled(weights[::-1], scales[1]))
        if moments.grouped:
            unseen = np.maximum(unseen, _ratios(squares, sums))
        return RareRewards(sums, squares, unseen, effective, moments.rows, self._reason(moments.rows))

    def _payoff_scales(self) -> Floats:
        """The scale of positive and of negative payoffs; that of the largest possible one if the log has none."""
        if self._payoffs.any():
            return np.minimum(_ratios(self._payoffs[:, 2], self._payoffs[:, 1]), abs(self._largest))
        return np.abs([max(self._largest, 0.0), min(self._largest, 0.0)])

    def _reason(self, rows: int) -> str:
        """Why there is no interval."""
        payoffs = _effective(*self._payoffs[:, :2].sum(axis=0))
        if math.isfinite(self._largest) or payoffs >= MIN_PAYOFFS:
            return ""
        needed = float(f"{rows * (MIN_PAYOFFS / payoffs - 1.0):.2g}") if payoffs else 0.0
        more = f"; about {needed:,.0f} more rows like these would be enough" if payoffs else ""
        return (
            f"{NO_EVIDENCE}: a few large rewards have most of the sum, as {payoffs:.2g} equal ones of {rows:,} rows "
            f"would{more}"
        )


def _scaled(weights: Floats, scale: float) -> Floats:
    """Return weights * scale; 0 for a weight of 0, also if the scale is infinite."""
    return np.multiply(weights, scale, where=weights > 0.0, out=np.zeros_like(weights))


def sums_of_weights(weights: Floats, squares: Floats) -> Floats:
    """Return the sums of |w|, w^2 and |w|^3, (2, 3), for positive and for negative weights.

    Args:
        weights: w of each decision, times its probability: of all arms if these are known, else of the chosen ones.
        squares: w^2 of each decision, times its probability.
    """
    sums = np.zeros((2, 3))
    for row, part in zip(sums, _parts(weights), strict=True):
        ratios = np.divide(squares, part, out=np.zeros_like(part), where=part > 0.0)
        row += part.sum(), (part * ratios).sum(), (squares * ratios).sum()
    return sums


def _parts(values: Floats) -> tuple[Floats, Floats]:
    """The positive part, and the size of the negative part."""
    return np.maximum(values, 0.0), np.maximum(-values, 0.0)


def _ratios(top: Floats, bottom: Floats) -> Floats:
    """Quotients; 0 if both are 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0.0)


def _effective(total: float, squares: float) -> float:
    """The number of equal terms with this sum and this sum of squares; 0 without terms."""
    return total * total / squares if squares > 0.0 else 0.0


def _gamma_half_widths(total: float, squares: float, unseen: float, error: float) -> tuple[float, float]:
    """Half-widths of the interval for the mean of a weighted Poisson sum. Each bound is wrong with this probability."""

    def bound(total: float, squares: float, probability: float) -> float:
        return squares / total * float(gammaincinv(total * total / squares, probability)) if total > 0.0 else 0.0

    high = bound(total + unseen, squares + unseen * unseen, 1.0 - error)
    return total - bound(total, squares, error), high - total
