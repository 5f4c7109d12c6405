"""Bounds of the scores of all arms of a catalogue, kept up to date from decision to decision.

Under a `BonusRule` the score of an arm is a line in Z. Its level takes one product, its slope takes the variance of the
score, O(dim^2). Almost no variance has to be computed: a reward lowers the covariance by a matrix of rank one, so
one more product for each reward keeps an upper bound of every variance close to it. Arms whose line is below that of
another arm everywhere cannot win, and the policy itself decides among the few others. All bounds include rounding
errors, those of the policy too, so the decision is the one that the policy takes among all arms.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.entries import bound_scores_recipe, scan_panels_recipe
from glbandits.compilation import entry_point
from glbandits.maths.arm_panels import WIDTH, largest_error, pack_columns
from glbandits.maths.low_rank import factor_of_bound, factor_of_decrease, largest_growth, no_decrease
from glbandits.policy import BonusRule
from glbandits.records import Bools, Floats, Ints

LARGEST_RANK = 16
"""Rewards between two decisions up to which bounds are updated; after more they are computed again."""
LARGEST_GROWTH = 1.5
"""How much a variance may have grown, after forgetting or a new prior, for bounds to be enlarged by it."""
REFRESHED_SHARE = 64
"""Every update computes the bounds of one arm in so many again, because the errors of updates add up."""
ABSOLUTE_MARGIN, RELATIVE_MARGIN, LOGARITHM_MARGIN = 1e-13, 1e-9, 1e-15
"""For rounding errors of the policy: relative to the largest value of a sum, to the sum, and of a logarithm."""
TOO_MANY = 2000
"""Above so many contenders, bounds that were enlarged are computed again."""
MANY = 256
"""Above so many contenders, only the first of several with the same features stays."""


class Contenders(NamedTuple):
    """The result of the last search, and what it was the result of."""

    version: int
    rule: BonusRule
    allowed: Ints | None
    rows: Ints


class ArmBounds:
    """Which arms of a catalogue can win under the rule of a bandit."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._scan, self._bound = entry_point(scan_panels_recipe), entry_point(bound_scores_recipe)
        self._generation, self._version, self._next_panel, self._typical_variance = 0, -1, 0, 1.0
        self._covariance: Floats
        self._levels: Floats
        self._variances: Floats
        self._lowest: Floats
        self._highest: Floats
        self._is_enlarged = False
        self._last: Contenders | None = None

    def contenders(self, rule: BonusRule, allowed: Ints | None) -> Ints:
        """The allowed rows that may have the highest line at some Z, in order; of equal arms at least the first."""
        last = self._last
        if last is None or last.version != self._catalogue.version or not _same(last.rule, rule):
            self._update(rule)
        elif _same((last.allowed,), (allowed,)):
            return last.rows
        rows = self._may_win(rule, allowed)
        if len(rows) > TOO_MANY and self._is_enlarged:
            self._refresh_all(rule)
            rows = self._may_win(rule, allowed)
        if len(rows) > MANY:
            rows = self._catalogue.first_of_equals(rows)
        self._last = Contenders(self._catalogue.version, rule, allowed, rows)
        return rows

    def _may_win(self, rule: BonusRule, allowed: Ints | None) -> Ints:
        packed, count = self._catalogue.packed, len(self._catalogue)
        level_error = largest_error(self._catalogue.dim) * float(np.linalg.norm(rule.theta * packed.units[:-1]))
        level_error += ABSOLUTE_MARGIN * float(np.linalg.norm(rule.level_sizes * packed.units))
        variance_error = ABSOLUTE_MARGIN * float(rule.variance_sizes @ packed.units**2)
        lowest, highest = self._lowest[:count], self._highest[:count]
        # A tangent is above the logarithm, and takes a tenth of its time.
        tangent = rule.information / (1.0 + rule.information * self._typical_variance)
        offset = math.log1p(rule.information * self._typical_variance) - tangent * self._typical_variance
        self._bound.call(
            *(self._levels, self._variances, packed.norms),
            *(level_error, variance_error, offset + LOGARITHM_MARGIN, tangent, rule.low, rule.high),
            *(lowest, highest),
        )
        if allowed is None:
            rows = np.flatnonzero(self._may_beat(rule, int(highest.argmax()), lowest, highest))
        else:
            best = int(allowed[highest[allowed].argmax()])
            rows = allowed[self._may_beat(rule, best, lowest[allowed], highest[allowed])]
        levels = self._levels[rows] + level_error * packed.norms[rows]
        variances = self._variances[rows] + variance_error * packed.norms[rows] ** 2
        bonuses = np.sqrt(variances * (np.log1p(rule.information * variances) + LOGARITHM_MARGIN))
        self._typical_variance = float(variances.mean())
        lowest, highest = levels + rule.low * bonuses, levels + rule.high * bonuses
        may_win = np.ones(len(rows), dtype=bool)
        for best in {int(lowest.argmax()), int(highest.argmax()), int((lowest + highest).argmax())}:
            may_win &= self._may_beat(rule, int(rows[best]), lowest, highest)
        return rows[may_win]

    def _may_beat(self, rule: BonusRule, row: int, lowest: Floats, highest: Floats) -> Bools:
        """Whether lines, given by their ends, are not below the line of this row everywhere."""
        x = np.append(self._catalogue.features[row], 1.0)
        variance = (1.0 - RELATIVE_MARGIN) * float(x @ rule.covariance @ x)
        bonus = math.sqrt(max(variance * (math.log1p(rule.information * variance) - LOGARITHM_MARGIN), 0.0))
        level = float(x[:-1] @ rule.theta)
        return (lowest >= level + rule.low * bonus) | (highest >= level + rule.high * bonus)

    def _update(self, rule: BonusRule) -> None:
        """Bring levels and variances up to date with the rule and the catalogue."""
        packed, panels = self._catalogue.packed, -(-len(self._catalogue) // WIDTH)
        theta = np.append(rule.theta * packed.units[:-1], 0.0)
        covariance = rule.covariance * np.outer(packed.units, packed.units)
        decrease, growth = None, 1.0
        if packed.generation == self._generation:
            decrease = factor_of_decrease(self._covariance, covariance, LARGEST_RANK)
            if decrease is None:  # too many rewards for an update, or the prior was replaced
                decrease, growth = no_decrease(self._covariance), largest_growth(self._covariance, covariance)
        else:
            size = len(packed.norms)
            self._levels, self._variances = np.zeros(size), np.zeros(size)
            self._lowest, self._highest = np.zeros(size), np.zeros(size)
        changed = self._catalogue.rows_changed_since(self._version)
        self._generation, self._version, self._covariance = packed.generation, self._catalogue.version, covariance
        if decrease is None or growth > LARGEST_GROWTH:
            self._refresh_all(rule)
            return
        self._is_enlarged = self._is_enlarged or len(decrease[0]) == 0
        self._scan_panels(np.vstack([theta, decrease[0]]), 0, panels, max(growth, 1.0), decrease[1])
        refreshed = np.vstack([theta, factor_of_bound(covariance).T])
        for panel in np.unique(changed // WIDTH):
            self._scan_panels(refreshed, int(panel), int(panel) + 1)
        first = self._next_panel if self._next_panel < panels else 0
        self._next_panel = min(first + -(-panels // REFRESHED_SHARE), panels)
        self._scan_panels(refreshed, first, self._next_panel)

    def _refresh_all(self, rule: BonusRule) -> None:
        """Compute the bounds of all arms."""
        theta = np.append(rule.theta * self._catalogue.packed.units[:-1], 0.0)
        columns = np.vstack([theta, factor_of_bound(self._covariance).T])
        self._scan_panels(columns, 0, -(-len(self._catalogue) // WIDTH))
        self._is_enlarged = False

    def _scan_panels(self, columns: Floats, first: int, end: int, growth: float = 0.0, remainder: float = 0.0) -> None:
        """Update the bounds of some panels, or compute them: see `scan_panels`."""
        packed, arms = self._catalogue.packed, slice(first * WIDTH, end * WIDTH)
        self._scan.call(
            *(packed.panels[first:end], packed.norms[arms], *pack_columns(columns)),
            *(largest_error(self._catalogue.dim), growth, remainder),
            *(self._levels[arms], self._variances[arms]),
        )


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
