"""Find the arms of a catalogue that can win, from upper bounds of the variances of their scores.

Under a `BonusRule` the score of an arm is a line in Z: level + Z * bonus. One product gives the levels of all arms,
but a variance takes O(dim^2). The search therefore starts from upper bounds of all variances, which are updated from
decision to decision. It computes the variances of the arms with the largest bounds of their scores, and removes all
arms that one of these dominates: whose line is lower for every Z. It repeats that until all remaining variances are
computed.

The bounds include rounding errors, also those of the policy. The policy itself then decides among the remaining arms,
with the same result as among all arms.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, eigh, eigvalsh

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.policies.contract import BonusRule

ROUNDING = 1e-12
"""A bound of rounding errors, relative to the largest possible terms of a sum. Far above those of float64."""
FIRST_VARIANCES, MORE_VARIANCES = 256, 8
"""The largest number of variances that a search computes at first, and the factor by which it grows each time."""
LARGEST_GROWTH = 4.0
"""If variances may have grown by more than this factor, they are all computed again."""
CHUNK = 2048
"""Arms of a product. Few enough to stay in the CPU cache, where BLAS does not wait for other threads."""


class ArmRule(NamedTuple):
    """A `BonusRule` for the stored features of a catalogue, with bounds of the rounding errors of the policy."""

    rule: BonusRule
    theta: Floats
    covariance: Floats
    level_error: float
    variance_error: float

    @classmethod
    def of(cls, rule: BonusRule, matrix: Floats, largest: Floats) -> "ArmRule | None":
        """Create the rule for arms z whose features x for the policy are given by (x, 1) = matrix (z, 1).

        Its levels lack a constant that is the same for all arms. Returns None if |z| <= largest allows features x above
        the limits of the rule.
        """
        sizes = np.abs(matrix) @ np.append(largest, 1.0)
        if (sizes[:-1] > rule.limits).any():
            return None
        return cls(
            rule,
            theta=matrix[:-1, :-1].T @ rule.theta,
            covariance=matrix.T @ rule.covariance @ matrix,
            level_error=ROUNDING * float(np.abs(rule.theta) @ sizes[:-1]),
            variance_error=ROUNDING * float(np.sqrt(np.diagonal(rule.covariance)) @ sizes) ** 2,
        )

    def variances(self, features: Floats) -> Floats:
        """Return upper bounds of the variances of arms that exceed them by at most 2 `variance_error`."""
        variances = np.full(len(features), self.covariance[-1, -1] + self.variance_error)
        for start in range(0, len(features), CHUNK):
            x = features[start : start + CHUNK]
            projected = x @ self.covariance[:-1, :-1] + 2.0 * self.covariance[-1, :-1]
            variances[start : start + CHUNK] += np.einsum("ij,ij->i", projected, x)
        return variances

    def score_bounds(self, levels: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return upper bounds of the scores at the lowest and at the highest Z, from bounds of the variances."""
        bonuses = (1.0 + ROUNDING) * self.rule.bonus(variances + self.variance_error)
        levels = levels + self.level_error
        return levels + self.rule.low * bonuses, levels + self.rule.high * bonuses

    def least_scores(self, level: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """The same as lower bounds, from results of `variances`."""
        bonus = (1.0 - ROUNDING) * self.rule.bonus(np.maximum(variance - 3.0 * self.variance_error, 0.0))
        level = level - self.level_error
        return level + self.rule.low * bonus, level + self.rule.high * bonus


class ArmBounds:
    """Upper bounds of the variances of all arms of a catalogue.

    They are only a cache: decisions are the same for every history. They save time if the covariance of a decision is
    close to that of the decision before.
    """

    def __init__(self) -> None:
        self._variances: Floats = np.empty(0)
        self._computed = np.empty(0, dtype=bool)  # whether the bound is a result of `ArmRule.variances`
        self._covariance: Floats = np.empty((0, 0))

    def contenders(self, rule: ArmRule, features: Floats, largest: Floats, changed: Ints, allowed: Ints) -> Ints:
        """Return the allowed rows that may have the highest score for some Z, in their order.

        Args:
            rule: the rule of the decision.
            features: the features of all arms.
            largest: an upper bound of the absolute value of each feature.
            changed: the rows that are new or have changed since the last call.
            allowed: the rows to search.
        """
        self._update(rule, features, largest, changed)
        levels, rows, count = products(features, rule.theta), allowed, FIRST_VARIANCES
        low, high = rule.score_bounds(levels[rows], self._variances[rows])
        missing = np.array([low.argmax(), high.argmax(), (low + high).argmax()])
        while len(missing) > 0:
            self._compute(rule, features, rows[missing])
            low[missing], high[missing] = rule.score_bounds(levels[rows[missing]], self._variances[rows[missing]])
            can_win = self._undominated(rule, levels, rows, low, high)
            rows, low, high = rows[can_win], low[can_win], high[can_win]
            missing = np.flatnonzero(~self._computed[rows])
            if len(missing) > count:
                missing = missing[np.argpartition(low[missing] + high[missing], -count)[-count:]]
            count *= MORE_VARIANCES
        return rows

    def _undominated(self, rule: ArmRule, levels: Floats, rows: Ints, low: Floats, high: Floats) -> Bools:
        """Whether each row is dominated by none of three computed ones: the best at low, high and middle Z."""
        computed = np.flatnonzero(self._computed[rows])
        can_win = np.ones(len(rows), dtype=bool)
        for scores in (low[computed], high[computed], low[computed] + high[computed]):
            best = rows[computed[scores.argmax()]]
            least_low, least_high = rule.least_scores(levels[best], self._variances[best])
            can_win &= (low >= least_low) | (high >= least_high)
        return can_win

    def _compute(self, rule: ArmRule, features: Floats, rows: Ints) -> None:
        self._variances[rows], self._computed[rows] = rule.variances(features[rows]), True

    def _update(self, rule: ArmRule, features: Floats, largest: Floats, changed: Ints) -> None:
        """Update the bounds of all arms to the covariance of the rule and the changed rows."""
        count, before = len(features), self._covariance
        self._covariance = rule.covariance
        update = None
        if len(changed) < count and before.shape == rule.covariance.shape:
            update = variance_update(before, rule.covariance, largest)
        if update is None:
            self._variances, self._computed = rule.variances(features), np.ones(count, dtype=bool)
            return
        growth, column, added = update
        if len(self._variances) != count:
            self._variances, self._computed = np.resize(self._variances, count), np.resize(self._computed, count)
        if not np.array_equal(before, rule.covariance):
            squares = (products(features, column[:-1]) + column[-1]) ** 2
            self._variances = np.maximum(growth * self._variances - squares, 0.0) + added
            self._computed[:] = False
        self._compute(rule, features, changed)


def variance_update(before: Floats, after: Floats, largest: Floats) -> tuple[float, Floats, float] | None:
    """Return growth, column c and added of a bound of variances: growth v - (c'(x, 1))^2 + added.

    v is the variance of x before, or an upper bound of it. The bound holds for all |x| <= largest. `growth` is the
    largest ratio of the variance after to that before, in any direction, and c is the direction with the smallest
    ratio. After one reward, the bound is thereby exact up to rounding. Returns None if `growth` is too large.
    """
    units = np.append(np.where(largest > 0.0, largest, 1.0), 1.0)
    scale, size = np.outer(units, units), len(units)
    before, after = before * scale, after * scale
    ridge = ROUNDING * float(np.trace(before)) * np.eye(size)
    try:
        ratios, vectors = eigh(after, before + ridge)
        growth = float(ratios[-1])
        column = (before + ridge) @ vectors[:, 0] * np.sqrt(growth - ratios[0])
        # The steps above need not be exact, because negative eigenvalues of what remains are added to the bound.
        remainder = growth * before - np.outer(column, column) - after
        missing = max(-float(eigvalsh(remainder, subset_by_index=(0, 0))[0]), 0.0)
    except (LinAlgError, ValueError):
        return None
    added = size * (missing + ROUNDING * float(np.trace(growth * before + after)))  # |(x, 1)|^2 in units is below size
    return (growth, column / units, added) if growth <= LARGEST_GROWTH else None


def products(features: Floats, vector: Floats) -> Floats:
    """Return the product of each arm with the vector."""
    out = np.empty(len(features))
    for start in range(0, len(features), CHUNK):
        np.dot(features[start : start + CHUNK], vector, out=out[start : start + CHUNK])
    return out
