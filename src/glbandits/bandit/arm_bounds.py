"""Upper bounds of the scores of all arms of a catalogue, updated from decision to decision.

Under a `BonusRule` the score of an arm is a line in Z: level + Z * bonus. The level takes one product. The bonus needs
the variance of the score, which takes O(dim^2). Almost no variance has to be computed: a reward changes the covariance
by a matrix of rank one, so an upper bound of every variance is updated by one more product for each reward.

An arm is dominated if its line is below the line of another arm for every Z. Dominated arms cannot win, so the policy
itself decides among the few others. All bounds include rounding errors, also those of the policy. The decision is
therefore the same as the decision of the policy among all arms.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from glbandits.bandit.catalogue import Catalogue
from glbandits.bandit.entry_points import bound_scores_recipe, scan_panels_recipe
from glbandits.bandit.packed_arms import padded_rows
from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.compilation.entry_point import entry_point
from glbandits.maths.arm_panels import WIDTH, Singles, largest_error, pack_columns, pack_panels
from glbandits.maths.variance_bounds import VarianceUpdate, general_update, low_rank_update, upper_bound_factor
from glbandits.policies.contract import BonusRule

LARGEST_RANK = 16
"""The number of rewards between two decisions up to which `low_rank_update` is tried."""
GENERAL_RANK, RIDGES = 4, (0.0, 3.0)
"""The arguments `rank` and `ridge` of `general_update`, for all other changes. Ridges are tried in this order."""
GOOD_SLACK, LARGEST_SLACK, SAMPLE = 1.2, 1.4, 64
"""Limits of the slack of `general_update`: the ratio of bounds to variances, a mean over about SAMPLE arms.

Below GOOD_SLACK no other ridge is tried. If no ridge is below LARGEST_SLACK, all bounds are computed from scratch.
"""
REFRESH_INTERVAL, LOOSE_REFRESH_INTERVAL = 64, 16
"""Each update computes one panel in 64, or in 16, from scratch, because the errors of updates add up.

The second interval applies after a `general_update`, until every panel was refreshed once.
"""
ABSOLUTE_MARGIN, RELATIVE_MARGIN, LOGARITHM_MARGIN = 1e-13, 1e-9, 1e-15
"""Rounding errors of the policy: relative to the largest term of a sum, relative to the sum, and of a logarithm."""
TIGHTEN_ABOVE = 256
"""The number of rows above which duplicates are removed and bounds are computed from scratch."""
REFRESH_ALL_ABOVE = 0.25
"""The share of arms to refresh above which all arms are refreshed."""


class RoundingErrors(NamedTuple):
    """Bounds of rounding errors: of a level relative to |x|, and of a variance relative to |x|^2."""

    level: float
    variance: float


class SearchResult(NamedTuple):
    """The arguments and the result of the last search."""

    version: int
    rule: BonusRule
    allowed: Ints | None
    rows: Ints


class ArmBounds:
    """Finds the arms of a catalogue that can win under the rule of a bandit."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._scan, self._bound = entry_point(scan_panels_recipe), entry_point(bound_scores_recipe)
        self._generation, self._version, self._next_panel, self._typical_variance = 0, -1, 0, 1.0
        self._loose_panels = 0  # panels not refreshed since the last `general_update`
        self._covariance: Floats
        self._levels: Floats
        self._variances: Floats
        self._scores_at_low: Floats
        self._scores_at_high: Floats
        self._last: SearchResult | None = None

    def contenders(self, rule: BonusRule, allowed: Ints | None) -> Ints:
        """Return the allowed rows that may have the highest score for some Z, in ascending order.

        Of arms with equal features, at least the first is included.
        """
        last = self._last
        if last is None or last.version != self._catalogue.version or not _are_equal(last.rule, rule):
            self._update(rule)
        elif _are_equal((last.allowed,), (allowed,)):
            return last.rows
        packed = self._catalogue.packed
        level_error = largest_error(self._catalogue.dim) * float(np.linalg.norm(rule.theta * packed.units[:-1]))
        level_error += ABSOLUTE_MARGIN * float(np.linalg.norm(rule.level_sizes * packed.units))
        errors = RoundingErrors(level_error, ABSOLUTE_MARGIN * float(rule.variance_sizes @ packed.units**2))
        rows = self._rough_search(rule, allowed, errors)
        if len(rows) > TIGHTEN_ABOVE:
            rows = self._tighten(rule, rows, errors)
        rows = self._undominated(rule, rows, rows, errors)
        self._last = SearchResult(self._catalogue.version, rule, allowed, rows)
        return rows

    def _rough_search(self, rule: BonusRule, allowed: Ints | None, errors: RoundingErrors) -> Ints:
        """Bound the scores of all arms. Return the allowed rows that the arm with the largest bound does not dominate.

        Replaces the logarithm in the bonus by a tangent. The tangent is above it, and takes a tenth of its time.
        """
        count = len(self._catalogue)
        at_low, at_high = self._scores_at_low[:count], self._scores_at_high[:count]
        slope = rule.information / (1.0 + rule.information * self._typical_variance)
        offset = math.log1p(rule.information * self._typical_variance) - slope * self._typical_variance
        self._bound.call(
            *(self._levels, self._variances, self._catalogue.packed.norms),
            *(errors.level, errors.variance, offset + LOGARITHM_MARGIN, slope, rule.low, rule.high),
            *(at_low, at_high),
        )
        if allowed is None:
            return np.flatnonzero(self._can_beat(rule, int(at_high.argmax()), at_low, at_high))
        best = int(allowed[at_high[allowed].argmax()])
        return allowed[self._can_beat(rule, best, at_low[allowed], at_high[allowed])]

    def _tighten(self, rule: BonusRule, rows: Ints, errors: RoundingErrors) -> Ints:
        """Remove duplicates and most dominated arms from the rows. Computes bounds of remaining rows from scratch."""
        self._typical_variance = float(self._variances[rows].mean())
        if len(rows) == len(self._catalogue):
            rows = self._catalogue.without_duplicates(rows)
        if len(rows) > TIGHTEN_ABOVE:
            leaders = rows[np.argpartition(self._scores_at_high[rows], -TIGHTEN_ABOVE)[-TIGHTEN_ABOVE:]]
            self._refresh_rows(rule, leaders)
            rows = self._catalogue.without_duplicates(self._undominated(rule, rows, leaders, errors))
        if len(rows) > TIGHTEN_ABOVE:
            self._refresh_rows(rule, rows)
        return rows

    def _undominated(self, rule: BonusRule, rows: Ints, leaders: Ints, errors: RoundingErrors) -> Ints:
        """Return the rows that are dominated by none of three leaders: the best at low, high and middle Z."""
        at_low, at_high = self._score_bounds(rule, leaders, errors)
        best = {int(at_low.argmax()), int(at_high.argmax()), int((at_low + at_high).argmax())}
        at_low, at_high = self._score_bounds(rule, rows, errors)
        can_win = np.ones(len(rows), dtype=bool)
        for leader in best:
            can_win &= self._can_beat(rule, int(leaders[leader]), at_low, at_high)
        return rows[can_win]

    def _score_bounds(self, rule: BonusRule, rows: Ints, errors: RoundingErrors) -> tuple[Floats, Floats]:
        """Return upper bounds of the scores of these rows at the lowest and at the highest Z."""
        norms = self._catalogue.packed.norms[rows]
        levels = self._levels[rows] + errors.level * norms
        variances = self._variances[rows] + errors.variance * norms**2
        bonuses = np.sqrt(variances * (np.log1p(rule.information * variances) + LOGARITHM_MARGIN))
        return levels + rule.low * bonuses, levels + rule.high * bonuses

    def _can_beat(self, rule: BonusRule, row: int, at_low: Floats, at_high: Floats) -> Bools:
        """Whether arms with these bounds of their scores, at the ends of Z, are not dominated by the arm in `row`."""
        x = np.append(self._catalogue.features[row], 1.0)
        variance = (1.0 - RELATIVE_MARGIN) * float(x @ rule.covariance @ x)
        bonus = math.sqrt(max(variance * (math.log1p(rule.information * variance) - LOGARITHM_MARGIN), 0.0))
        level = float(x[:-1] @ rule.theta)
        return (at_low >= level + rule.low * bonus) | (at_high >= level + rule.high * bonus)

    def _update(self, rule: BonusRule) -> None:
        """Update the levels and the bounds of variances to the rule and the catalogue."""
        packed, panels = self._catalogue.packed, -(-len(self._catalogue) // WIDTH)
        covariance = rule.covariance * np.outer(packed.units, packed.units)
        changed_rows, update = self._catalogue.rows_changed_since(self._version), None
        if packed.generation == self._generation:
            update = self._variance_update(covariance)
        else:
            size = len(packed.norms)
            self._levels, self._variances = np.zeros(size), np.zeros(size)
            self._scores_at_low, self._scores_at_high = np.zeros(size), np.zeros(size)
        self._generation, self._version, self._covariance = packed.generation, self._catalogue.version, covariance
        scratch = self._scratch_columns(rule)
        if update is None:
            self._scan_panels(scratch, 0, panels)
            return
        self._scan_panels(np.vstack([scratch[:1], update.columns]), 0, panels, update.growth, update.remainder)
        for panel in np.unique(changed_rows // WIDTH):
            self._scan_panels(scratch, int(panel), int(panel) + 1)
        interval = LOOSE_REFRESH_INTERVAL if self._loose_panels > 0 else REFRESH_INTERVAL
        first = self._next_panel if self._next_panel < panels else 0
        self._next_panel = min(first + -(-panels // interval), panels)
        self._loose_panels -= self._next_panel - first
        self._scan_panels(scratch, first, self._next_panel)

    def _variance_update(self, covariance: Floats) -> VarianceUpdate | None:
        """Return the update from the last covariance to this one; None if its bounds would be too loose."""
        update = low_rank_update(self._covariance, covariance, LARGEST_RANK)
        if update is not None:
            return update
        # Many rewards were learned, or the prior was replaced.
        step = -(-len(self._catalogue) // SAMPLE)
        sample, variances = self._catalogue.features[::step], self._variances[: len(self._catalogue) : step]
        rows = np.column_stack([sample / self._catalogue.packed.units[:-1], np.ones(len(sample))])
        mean_variance, least_slack = float((rows @ covariance * rows).sum(axis=1).mean()), math.inf
        for ridge in RIDGES:
            tried = general_update(self._covariance, covariance, GENERAL_RANK, ridge)
            slack = float(tried.bound(rows, variances).mean()) / mean_variance
            if slack < min(least_slack, LARGEST_SLACK):
                update, least_slack = tried, slack
            if slack < GOOD_SLACK:
                break
        self._loose_panels = -(-len(self._catalogue) // WIDTH)
        return update

    def _scratch_columns(self, rule: BonusRule) -> Floats:
        """Return the columns from which `scan_panels` computes levels and variances from scratch."""
        theta = np.append(rule.theta * self._catalogue.packed.units[:-1], 0.0)
        return np.vstack([theta, upper_bound_factor(self._covariance).T])

    def _refresh_rows(self, rule: BonusRule, rows: Ints) -> None:
        """Compute the variances of these rows from scratch, or those of all rows."""
        columns, count, packed = self._scratch_columns(rule), len(rows), self._catalogue.packed
        if count > REFRESH_ALL_ABOVE * len(self._catalogue):
            self._scan_panels(columns, 0, -(-len(self._catalogue) // WIDTH))
            return
        panels = pack_panels(padded_rows(self._catalogue.features[rows] / packed.units[:-1]))
        norms, levels, variances = np.ones((3, len(panels) * WIDTH))
        norms[:count] = packed.norms[rows]
        self._scan_arms(columns, panels, norms, levels, variances)
        self._variances[rows] = variances[:count]

    def _scan_panels(self, columns: Floats, first: int, end: int, growth: float = 0.0, remainder: float = 0.0) -> None:
        """Update or compute the levels and variances of some panels. `scan_panels` explains the arguments."""
        packed, arms = self._catalogue.packed, slice(first * WIDTH, end * WIDTH)
        levels, variances = self._levels[arms], self._variances[arms]
        self._scan_arms(columns, packed.panels[first:end], packed.norms[arms], levels, variances, growth, remainder)

    def _scan_arms(
        self,
        columns: Floats,
        panels: Singles,
        norms: Floats,
        levels: Floats,
        variances: Floats,
        growth: float = 0.0,
        remainder: float = 0.0,
    ) -> None:
        error = largest_error(self._catalogue.dim)
        self._scan.call(panels, norms, *pack_columns(columns), error, growth, remainder, levels, variances)


def _are_equal(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))
