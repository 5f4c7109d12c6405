"""Anytime-valid intervals for the value of a target, from a log whose policy may learn.

The estimate is doubly robust. Its reward model predicts each row before it learns the row. `confidence_sequence`
explains why the intervals hold at every number of rows, for any logging policy, and when rewards drift.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.log_rows import LogRows
from glbandits.evaluation.estimators.measures import Measure, MeasureRows
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.maths.online_statistics.confidence_sequence import ConfidenceSequence, rows_to_exclude_zero
from glbandits.maths.online_statistics.mergeable import Mergeable, merged


@dataclass(frozen=True, kw_only=True)
class AnytimeInterval:
    """An estimate with an interval that holds at every number of rows at once."""

    value: float
    low: float
    high: float
    rows: int
    level: float

    @property
    def interval(self) -> Interval:
        """`low` and `high` as an `Interval`."""
        return Interval(self.low, self.high)

    def rows_to_exclude_zero(self) -> float:
        """Return the approximate number of rows at which the interval would exclude 0; may be inf."""
        return rows_to_exclude_zero(self.rows, self.value, self.low, self.high)


class AnytimeSums(Mergeable):
    """Accumulates the anytime-valid interval of one measure over blocks of a log.

    Args:
        measure: what the interval is about.
        reward_range: lowest and highest possible reward.
        least_propensity: lower bound on the probabilities that the logging policy gave to arms that the target may
            choose, for logs without the probabilities of all arms. Without either, the reward model is not used.
    """

    rules: ClassVar = {"_sequence": merged}

    def __init__(
        self, measure: Measure, reward_range: tuple[float, float], least_propensity: float | None = None
    ) -> None:
        lowest, highest = reward_range
        is_value = measure is Measure.VALUE
        self._scale, self._origin, self._least = highest - lowest, lowest if is_value else 0.0, least_propensity
        self._sequence = ConfidenceSequence(0.0 if is_value else -1.0)

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self._sequence.rows

    def add(self, rows: LogRows, measure: MeasureRows) -> None:
        """Add the next rows, which need sequential predictions."""
        scaled = rows.scaled
        self._sequence.add(
            measure=measure.arms,
            reach=self._weight_bounds(rows, measure),
            chosen=rows.block.chosen,
            weights=measure.weights,
            rewards=scaled.rewards,
            predicted=scaled.predicted,
            offset=-scaled.rewards if measure.minus_payoffs else 0.0,
        )

    def _weight_bounds(self, rows: LogRows, measure: MeasureRows) -> Floats | None:
        """Upper bounds of |m(a)| / p(a), (rows, arms); None if unknown."""
        if rows.block.probabilities is not None:
            return _ratio(np.abs(measure.arms), rows.block.probabilities)
        if self._least is None:
            return None
        smallest = rows.propensities.min(where=measure.weights != 0.0, initial=1.0)
        if smallest < self._least:
            raise InvalidInput(
                f"propensities must be at least least_propensity, {self._least:g}; got {smallest:.3g}. "
                "Set a smaller least_propensity, or leave it out."
            )
        return np.abs(measure.arms) / self._least

    def interval(self, level: float) -> AnytimeInterval:
        """Return the interval of all rows so far, in units of the rewards."""
        low, high = self._sequence.interval(level)
        return AnytimeInterval(
            value=self._origin + self._scale * self._sequence.mean,
            low=self._origin + self._scale * low,
            high=self._origin + self._scale * high,
            rows=self.rows,
            level=level,
        )


def why_no_anytime_interval(
    schema: LogSchema, reward_range: tuple[float, float], payoff_range: tuple[float, float] | None
) -> str:
    """Return why a log cannot have anytime-valid intervals; "" if it can. `payoff_range` is that of the user."""
    if schema.estimated:
        return "the propensities were estimated"
    if not all(map(math.isfinite, reward_range)):
        return "needs the range of rewards: --reward-range, in Python reward_range"
    if schema.needs_payoff_range(payoff_range):
        return "needs the range of payoffs: --payoff-range, in Python payoff_range"
    if schema.clusters:
        return "rows of one cluster depend on each other"
    return ""


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotients; inf if only the denominator is 0, and 0 if both are."""
    if denominator.all():
        return numerator / denominator
    at_zero = np.where(numerator > 0.0, np.inf, 0.0)
    quotient: Floats = np.divide(numerator, denominator, out=at_zero, where=denominator > 0.0)
    return quotient
