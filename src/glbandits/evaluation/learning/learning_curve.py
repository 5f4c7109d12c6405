"""LearningCurve: estimated mean reward of a policy while it learns from a log."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.displayed import Displayed
from glbandits.evaluation.estimators.estimator import ratio
from glbandits.evaluation.estimators.grouped_moments import ClusterNumbers
from glbandits.maths.online_statistics.running_sums import RunningSums
from glbandits.policies.agents import PolicyOrAgent

Learn: TypeAlias = Literal["matched", "all"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LearningCurve(Displayed):
    """The result of playing a log with a policy that learns.

    Rewards are payoffs if the log has values.

    Standard errors are those of a martingale: each row is an unbiased draw given the rows before it. They include the
    variance of rewards that comes from the progress of the policy, so they are slightly too large. They do not include
    the variance between runs of the policy; use several seeds for that. They are NaN if fewer than two rows count. The
    rows of a cluster are taken together.
    """

    policy: PolicyOrAgent
    seed: int
    learn: Learn
    """Which rows were learned: those where the policy chose the logged arm, or all."""
    least_propensity: float | None
    """The propensity to which matched rows were thinned; None if all rows were learned."""
    events: int
    """Number of rows of the log."""
    matched: int
    """Number of rows where the policy chose the logged arm; with exact probabilities, where it could have."""
    kept: int
    """Number of rows that count: matched rows after thinning, or all matched rows if all rows were learned."""
    below: int
    """Number of matched rows with a propensity below `least_propensity`. They are underrepresented."""
    effective_sample_size: float
    """Number of rows (with clusters: of clusters) of equal weight that would give as much information."""
    largest_weight: float
    """Largest weight of a row. Weights have mean 1. It is 1 / least_propensity if only matched rows are learned."""
    at_events: Ints
    """Numbers of rows at which the following were recorded, (points,): evenly spaced except for the last."""
    at_kept: Ints
    """Number of rows that count so far."""
    at_values: Floats
    """Weighted mean of their rewards so far: the plain mean if matched rows are learned, SNIPS if all are."""
    at_standard_errors: Floats
    unit: str = "reward"
    """What all values are means of: "reward", or "payoff" if the log has values."""

    @property
    def value(self) -> float:
        """Mean reward per decision over the whole log."""
        return float(self.at_values[-1])

    @property
    def standard_error(self) -> float:
        """Standard error of `value`."""
        return float(self.at_standard_errors[-1])

    def _values(self) -> dict[str, object]:
        return {
            "policy": self.policy,
            "value": self.value,
            "error": self.standard_error,
            "rows": self.events,
            "rows that count": self.kept,
        }

    def plot(self) -> Any:
        """Return an Altair chart of the mean reward so far over the rows, with a band of one standard error."""
        from glbandits.common.display.charts import Curve, curves_chart, finish

        curve = Curve(self.policy.name, self.at_events, self.at_values, self.at_standard_errors)
        return finish(curves_chart([curve], "row of the log", f"mean {self.unit} so far (band: 1 s.e.)"))


WEIGHT, REWARD = 0, 1
"""Indices of the terms of a row: the weight w, and the weighted reward w r."""
PRODUCTS = ((WEIGHT, WEIGHT), (WEIGHT, REWARD), (REWARD, REWARD))
"""Pairs of terms whose products the variance needs."""


class WeightedSums:
    """Accumulates the points of a learning curve over blocks of rows.

    It has sums of weights and weighted rewards, and of the products that the variance needs.
    """

    def __init__(self, points: int) -> None:
        self._sums = RunningSums(columns=3 + len(PRODUCTS), points=points)
        self._units, self._totals = ClusterNumbers(), np.zeros((2, 0))
        self._largest_weight = 0.0

    def add(self, weights: Floats, rewards: Floats, clusters: Ints | None) -> None:
        """Add the next rows; each argument is (n,)."""
        terms = np.stack([weights, weights * rewards])
        first, second = np.transpose(PRODUCTS)
        squares = terms[first] * terms[second]
        if clusters is not None:
            self._units.add(clusters)
            units = self._units.find(clusters)
            # Add (b + t)(b' + t') - b b' for each row, where b is the sum of its cluster before it. Over all rows of a
            # cluster, this adds up to the product of the sums of the cluster.
            before = self._before(terms, units)
            squares += before[first] * terms[second] + terms[first] * before[second]
        self._sums.add(np.vstack([weights > 0.0, terms, squares]))
        self._largest_weight = max(self._largest_weight, float(weights.max(initial=0.0)))

    def _before(self, terms: Floats, units: Ints) -> Floats:
        """For each row, the sum of the terms of earlier rows of its cluster."""
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

    def curve(self, **about: Any) -> LearningCurve:
        """Return the learning curve of all rows so far. `about` are the fields that do not come from sums."""
        rows, kept, weight, reward, weight_2, weight_reward, reward_2 = self._sums.table()
        values = ratio(reward, weight)
        variance = reward_2 - 2 * values * weight_reward + values**2 * weight_2
        deviation = np.sqrt(np.maximum(variance, 0.0) * ratio(kept, kept - 1.0))  # NaN with fewer than two rows
        return LearningCurve(
            events=int(rows[-1]),
            kept=int(kept[-1]),
            effective_sample_size=float(ratio(weight, weight_2)[-1] * weight[-1]) if kept[-1] else 0.0,
            largest_weight=self._largest_weight,
            at_events=rows.astype(np.int64),
            at_kept=kept.astype(np.int64),
            at_values=values,
            at_standard_errors=ratio(deviation, weight),
            **about,
        )
