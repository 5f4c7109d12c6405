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
from glbandits.bandit.entry_points import bound_scores_recipe, scan_panels_recipe
from glbandits.bandit.packed_arms import padded_rows
from glbandits.compilation import entry_point
from glbandits.maths.arm_panels import WIDTH, Singles, largest_error, pack_columns, pack_panels
from glbandits.maths.low_rank import Change, any_change, decrease, factor_of_bound
from glbandits.policy import BonusRule
from glbandits.records import Bools, Floats, Ints

LARGEST_RANK = 16
"""Rewards between two decisions up to which bounds are updated exactly."""
RANK, RIDGES = 4, (0.0, 3.0)
"""After any other change of the covariance: directions in which variances fell, and the values of `ridge` to try."""
SMALL_SLACK, LARGEST_SLACK, SAMPLE = 1.2, 1.4, 64
"""How much too large bounds may become for the first ridge to do, and for any; else all bounds are computed again.

It is the mean over about so many arms.
"""
REFRESHED_SHARE, LOOSE_SHARE = 64, 16
"""Every update computes the bounds of one arm in so many again, because the errors of updates add up.

These are more arms after a change that makes bounds too large, until all had their turn.
"""
ABSOLUTE_MARGIN, RELATIVE_MARGIN, LOGARITHM_MARGIN = 1e-13, 1e-9, 1e-15
"""For rounding errors of the policy: relative to the largest value of a sum, to the sum, and of a logarithm."""
MANY = 256
"""Above so many candidates, only the first of several with the same features stays, and bounds are computed again."""
MOST = 0.25
"""The share of all arms above which the bounds of all are computed again, not only those of the candidates."""


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
        self._loose_panels = 0
        self._covariance: Floats
        self._levels: Floats
        self._variances: Floats
        self._lowest: Floats
        self._highest: Floats
        self._last: Contenders | None = None

    def contenders(self, rule: BonusRule, allowed: Ints | None) -> Ints:
        """The allowed rows that may have the highest line at some Z, in order; of equal arms at least the first."""
        last = self._last
        if last is None or last.version != self._catalogue.version or not _same(last.rule, rule):
            self._update(rule)
        elif _same((last.allowed,), (allowed,)):
            return last.rows
        packed = self._catalogue.packed
        level_error = largest_error(self._catalogue.dim) * float(np.linalg.norm(rule.theta * packed.units[:-1]))
        level_error += ABSOLUTE_MARGIN * float(np.linalg.norm(rule.level_sizes * packed.units))
        errors = level_error, ABSOLUTE_MARGIN * float(rule.variance_sizes @ packed.units**2)
        rows = self._candidates(rule, allowed, errors)
        if len(rows) > MANY:
            rows = self._fewer(rule, rows, errors)
        rows = self._unbeaten(rule, rows, rows, errors)
        self._last = Contenders(self._catalogue.version, rule, allowed, rows)
        return rows

    def _candidates(self, rule: BonusRule, allowed: Ints | None, errors: tuple[float, float]) -> Ints:
        """The allowed rows that can beat the one with the largest bound. Computes the scores of all arms roughly."""
        count = len(self._catalogue)
        lowest, highest = self._lowest[:count], self._highest[:count]
        # A tangent is above the logarithm, and takes a tenth of its time.
        tangent = rule.information / (1.0 + rule.information * self._typical_variance)
        offset = math.log1p(rule.information * self._typical_variance) - tangent * self._typical_variance
        self._bound.call(
            *(self._levels, self._variances, self._catalogue.packed.norms),
            *(*errors, offset + LOGARITHM_MARGIN, tangent, rule.low, rule.high),
            *(lowest, highest),
        )
        if allowed is None:
            return np.flatnonzero(self._may_beat(rule, int(highest.argmax()), lowest, highest))
        best = int(allowed[highest[allowed].argmax()])
        return allowed[self._may_beat(rule, best, lowest[allowed], highest[allowed])]

    def _fewer(self, rule: BonusRule, rows: Ints, errors: tuple[float, float]) -> Ints:
        """The rows without equal ones and without most that cannot win. Computes the bounds of the others again."""
        self._typical_variance = float(self._variances[rows].mean())
        if len(rows) == len(self._catalogue):
            rows = self._catalogue.first_of_equals(rows)
        if len(rows) > MANY:
            leaders = rows[np.argpartition(self._highest[rows], -MANY)[-MANY:]]
            self._refresh_rows(rule, leaders)
            rows = self._catalogue.first_of_equals(self._unbeaten(rule, rows, leaders, errors))
        if len(rows) > MANY:
            self._refresh_rows(rule, rows)
        return rows

    def _unbeaten(self, rule: BonusRule, rows: Ints, leaders: Ints, errors: tuple[float, float]) -> Ints:
        """Those of the rows that can beat the three best of the leaders."""
        lowest, highest = self._lines(rule, leaders, errors)
        best = {int(lowest.argmax()), int(highest.argmax()), int((lowest + highest).argmax())}
        lowest, highest = self._lines(rule, rows, errors)
        may_win = np.ones(len(rows), dtype=bool)
        for leader in best:
            may_win &= self._may_beat(rule, int(leaders[leader]), lowest, highest)
        return rows[may_win]

    def _lines(self, rule: BonusRule, rows: Ints, errors: tuple[float, float]) -> tuple[Floats, Floats]:
        """Upper bounds of the lines of some arms at both ends of Z."""
        norms = self._catalogue.packed.norms[rows]
        levels, variances = self._levels[rows] + errors[0] * norms, self._variances[rows] + errors[1] * norms**2
        bonuses = np.sqrt(variances * (np.log1p(rule.information * variances) + LOGARITHM_MARGIN))
        return levels + rule.low * bonuses, levels + rule.high * bonuses

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
        covariance = rule.covariance * np.outer(packed.units, packed.units)
        changed, change = self._catalogue.rows_changed_since(self._version), None
        if packed.generation == self._generation:
            change = self._change(covariance)
        else:
            size = len(packed.norms)
            self._levels, self._variances = np.zeros(size), np.zeros(size)
            self._lowest, self._highest = np.zeros(size), np.zeros(size)
        self._generation, self._version, self._covariance = packed.generation, self._catalogue.version, covariance
        refreshed = self._refreshing_columns(rule)
        if change is None:
            self._scan_panels(refreshed, 0, panels)
            return
        self._scan_panels(np.vstack([refreshed[:1], change.columns]), 0, panels, change.growth, change.remainder)
        for panel in np.unique(changed // WIDTH):
            self._scan_panels(refreshed, int(panel), int(panel) + 1)
        share = LOOSE_SHARE if self._loose_panels > 0 else REFRESHED_SHARE
        first = self._next_panel if self._next_panel < panels else 0
        self._next_panel = min(first + -(-panels // share), panels)
        self._loose_panels -= self._next_panel - first
        self._scan_panels(refreshed, first, self._next_panel)

    def _change(self, covariance: Floats) -> Change | None:
        """The change since the last update; None if bounds of variances would become much too large by it."""
        change = decrease(self._covariance, covariance, LARGEST_RANK)
        if change is not None:
            return change
        # Many rewards were learned, or the prior was replaced.
        step = -(-len(self._catalogue) // SAMPLE)
        sample, variances = self._catalogue.features[::step], self._variances[: len(self._catalogue) : step]
        rows = np.column_stack([sample / self._catalogue.packed.units[:-1], np.ones(len(sample))])
        exact, least = float((rows @ covariance * rows).sum(axis=1).mean()), math.inf
        for ridge in RIDGES:
            tried = any_change(self._covariance, covariance, RANK, ridge)
            slack = float(tried.bound(rows, variances).mean()) / exact
            if slack < min(least, LARGEST_SLACK):
                change, least = tried, slack
            if slack < SMALL_SLACK:
                break
        self._loose_panels = -(-len(self._catalogue) // WIDTH)
        return change

    def _refreshing_columns(self, rule: BonusRule) -> Floats:
        """The columns that compute levels and variances from nothing."""
        theta = np.append(rule.theta * self._catalogue.packed.units[:-1], 0.0)
        return np.vstack([theta, factor_of_bound(self._covariance).T])

    def _refresh_rows(self, rule: BonusRule, rows: Ints) -> None:
        """Compute the bounds of these arms again, or those of all."""
        columns, count, packed = self._refreshing_columns(rule), len(rows), self._catalogue.packed
        if count > MOST * len(self._catalogue):
            self._scan_panels(columns, 0, -(-len(self._catalogue) // WIDTH))
            return
        panels = pack_panels(padded_rows(self._catalogue.features[rows] / packed.units[:-1]))
        norms, levels, variances = np.ones((3, len(panels) * WIDTH))
        norms[:count] = packed.norms[rows]
        self._scan_arms(columns, panels, norms, levels, variances)
        self._variances[rows] = variances[:count]

    def _scan_panels(self, columns: Floats, first: int, end: int, growth: float = 0.0, remainder: float = 0.0) -> None:
        """Update the bounds of some panels, or compute them: see `scan_panels`."""
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


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
