"""LearningCurve: what a policy that learns would have earned, over time, and how sure that is."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

import numpy as np

from glbandits.evaluation.estimators.grouped_moments import Units
from glbandits.maths.online_statistics.running_sums import RunningSums
from glbandits.policies import Policy
from glbandits.records import Floats, Ints

Learn: TypeAlias = Literal["matched", "all"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LearningCurve:
    """What came of offering a log to a policy that learns.

    Standard errors are those of a martingale: given all rows before it, a row is a fair draw. They take the spread
    of the rewards as it is, with whatever the policy's progress adds to it, and so are a little too large, not too
    small. They are about what the policy became in this run: that another run may learn better or worse, only other
    seeds can tell. NaN where fewer than two rows count. If the log has clusters, their rows are taken together.
    """

    policy: Policy
    seed: int
    learn: Learn
    """Which rows were learned: those that the policy agreed with, or all."""
    least_propensity: float | None
    """What a kept row's propensity was thinned down to; None if all rows were learned."""
    events: int
    """Rows that were offered."""
    matched: int
    """Rows where the policy chose as the log did; with exact probabilities, where it could have."""
    kept: int
    """Rows that count: the matched ones that were kept, or all matched ones if all rows were learned."""
    below: int
    """Matched rows with a propensity below the least one: they are met more seldom than in the world."""
    effective_sample_size: float
    """How many rows of equal weight say as much: `kept` if weights are equal. With clusters, how many clusters."""
    largest_weight: float
    """Of a row: weights are 1 in the mean. It is 1 / least_propensity if only matched rows are learned."""
    at_events: Ints
    """Numbers of rows at which the following were recorded, (points,): evenly spaced but for the last."""
    at_kept: Ints
    """Rows that count by then."""
    at_values: Floats
    """The weighted mean of their rewards by then: the plain mean if matched rows are learned, SNIPS if all are."""
    at_standard_errors: Floats
    at_ips: Floats
    """The sum of weighted rewards for each row offered by then (IPS): unbiased, and more spread out."""
    at_ips_standard_errors: Floats

    @property
    def value(self) -> float:
        """The reward of a decision, in the mean over the whole log."""
        return float(self.at_values[-1])

    @property
    def standard_error(self) -> float:
        """Of the value."""
        return float(self.at_standard_errors[-1])

    @property
    def ips(self) -> float:
        """The same by plain inverse propensities."""
        return float(self.at_ips[-1])

    @property
    def ips_standard_error(self) -> float:
        """Of that."""
        return float(self.at_ips_standard_errors[-1])


ROW, WEIGHT, REWARD = 0, 1, 2
"""A row's terms: 1, its weight w, and its weighted reward w r."""
PAIRS = ((ROW, ROW), (ROW, REWARD), (WEIGHT, WEIGHT), (WEIGHT, REWARD), (REWARD, REWARD))
"""The products of terms that the two variances need."""


class CurveFields(TypedDict):
    """The fields of a LearningCurve that follow from sums."""

    events: int
    kept: int
    effective_sample_size: float
    largest_weight: float
    at_events: Ints
    at_kept: Ints
    at_values: Floats
    at_standard_errors: Floats
    at_ips: Floats
    at_ips_standard_errors: Floats


class WeightedSums:
    """Sums of weighted rewards, and of the squares that their uncertainty needs, over rows that come in blocks."""

    def __init__(self, points: int) -> None:
        self._sums = RunningSums(columns=3 + len(PAIRS), points=points)
        self._units, self._totals = Units(), np.zeros((3, 0))
        self._largest_weight = 0.0

    def add(self, weights: Floats, rewards: Floats, clusters: Ints | None) -> None:
        """The next rows, each argument (n,)."""
        terms = np.stack([np.ones(len(weights)), weights, weights * rewards])
        first, second = np.transpose(PAIRS)
        squares = terms[first] * terms[second]
        units = self._units.of(clusters)
        if units is not None:
            # (b + t)(b' + t') - b b' for each row, so that the running sums hold squares of sums over clusters.
            before = self._before(terms, units)
            squares += before[first] * terms[second] + terms[first] * before[second]
        self._sums.add(np.vstack([weights > 0.0, terms[WEIGHT], terms[REWARD], squares]))
        self._largest_weight = max(self._largest_weight, float(weights.max(initial=0.0)))

    def _before(self, terms: Floats, units: Ints) -> Floats:
        """For each row the sum of the terms of its cluster before it."""
        missing = int(units.max(initial=-1)) + 1 - self._totals.shape[1]
        self._totals = np.pad(self._totals, [(0, 0), (0, max(missing, 0))])
        order = np.argsort(units, kind="stable")
        sorted_units, sorted_terms = units[order], terms[:, order]
        sums = np.cumsum(sorted_terms, axis=1) - sorted_terms
        starts = np.searchsorted(sorted_units, sorted_units)
        before = np.empty_like(terms)
        before[:, order] = sums - sums[:, starts] + self._totals[:, sorted_units]
        self._totals += [np.bincount(units, weights=term, minlength=self._totals.shape[1]) for term in terms]
        return before

    def curve_fields(self) -> CurveFields:
        """What has come so far."""
        rows, kept, weight, reward, row_row, row_reward, weight_2, weight_reward, reward_2 = self._sums.table()
        values, ips = _ratio(reward, weight), _ratio(reward, rows)
        variance = reward_2 - 2 * values * weight_reward + values**2 * weight_2
        ips_variance = reward_2 - 2 * ips * row_reward + ips**2 * row_row
        return CurveFields(
            events=int(rows[-1]),
            kept=int(kept[-1]),
            effective_sample_size=float(_ratio(weight, weight_2)[-1] * weight[-1]) if kept[-1] else 0.0,
            largest_weight=self._largest_weight,
            at_events=rows.astype(np.int64),
            at_kept=kept.astype(np.int64),
            at_values=values,
            at_standard_errors=_ratio(_deviation(variance, kept), weight),
            at_ips=ips,
            at_ips_standard_errors=_ratio(_deviation(ips_variance, rows), rows),
        )


def _ratio(above: Floats, below: Floats) -> Floats:
    """The quotients; NaN where the divisor is 0."""
    ratio: Floats = np.full(len(below), np.nan)
    np.divide(above, below, out=ratio, where=below > 0.0)
    return ratio


def _deviation(squares: Floats, count: Floats) -> Floats:
    """Of a sum of so many terms, from the sum of their squares; NaN with fewer than two."""
    deviation: Floats = np.sqrt(np.maximum(squares, 0.0) * _ratio(count, count - 1.0))
    return deviation
