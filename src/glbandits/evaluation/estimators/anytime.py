"""Anytime-valid intervals for the value of a target, from a log whose policy may learn.

The estimate is doubly robust. Its reward model predicts each row before it learns the row. `confidence_sequence`
explains why the intervals hold at every number of rows, for any logging policy, and when rewards drift.
"""

import math
from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.estimators.estimator import Interval
from glbandits.evaluation.estimators.log_rows import LogRows
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.maths.online_statistics.confidence_sequence import ConfidenceSequence, rows_to_exclude_zero


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


class AnytimeIntervals:
    """Anytime-valid intervals of value, gain and difference from a reference, updated block by block.

    Args:
        reward_range: lowest and highest possible reward.
        least_propensity: lower bound on the probabilities that the logging policy gave to arms that the target may
            choose, for logs without the probabilities of all arms. Without either, the reward model is not used.
    """

    def __init__(self, reward_range: tuple[float, float], least_propensity: float | None = None) -> None:
        self._lowest, self._scale = reward_range[0], reward_range[1] - reward_range[0]
        self._least = least_propensity
        self._value, self._gain, self._difference = (ConfidenceSequence(low) for low in (0.0, -1.0, -1.0))

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self._value.rows

    def add(self, rows: LogRows, target: Floats, reference: Floats | None = None) -> None:
        """Add the next rows.

        Args:
            rows: the rows, with sequential predictions.
            target: the target's probabilities of the arms, (rows, max_arms).
            reference: the reference's probabilities of the arms, (rows, max_arms); in all blocks, or in none.
        """
        scaled, logged = rows.scaled, rows.block.known_probabilities

        def add_to(sequence: ConfidenceSequence, measure: Floats, offset: Floats | float = 0.0) -> None:
            sequence.add(
                measure=measure,
                reach=self._weight_bounds(rows, measure),
                chosen=rows.block.chosen,
                weights=rows.of_chosen(measure) / rows.propensities,
                rewards=scaled.rewards,
                predicted=scaled.predicted,
                offset=offset,
            )

        add_to(self._value, target)
        if logged is None:
            add_to(self._gain, target, offset=-scaled.rewards)
        else:
            add_to(self._gain, target - logged)
        if reference is not None:
            add_to(self._difference, target - reference)

    def _weight_bounds(self, rows: LogRows, measure: Floats) -> Floats | None:
        """Upper bounds of |measure| / p of all arms, (rows, max_arms); None if unknown."""
        if rows.block.known_probabilities is not None:
            return _ratio(np.abs(measure), rows.block.known_probabilities)
        if self._least is None:
            return None
        smallest = rows.propensities.min(where=rows.of_chosen(measure) != 0.0, initial=1.0)
        if smallest < self._least:
            raise InvalidInput(
                f"propensities must be at least least_propensity, {self._least:g}; got {smallest:.3g}. "
                "Set a smaller least_propensity, or leave it out."
            )
        return np.abs(measure) / self._least

    def value(self, level: float) -> AnytimeInterval:
        """Return the interval of the value of the target."""
        return self._scaled(self._value, level, self._lowest)

    def gain(self, level: float) -> AnytimeInterval:
        """Return the interval of the gain: the value of the target minus that of the log."""
        return self._scaled(self._gain, level)

    def difference(self, level: float) -> AnytimeInterval:
        """Return the interval of the difference: the value of the target minus that of the reference."""
        return self._scaled(self._difference, level)

    def _scaled(self, sequence: ConfidenceSequence, level: float, origin: float = 0.0) -> AnytimeInterval:
        """The interval in units of the rewards. `origin` is the reward at 0 of the sequence; 0 for a difference."""
        low, high = sequence.interval(level)
        return AnytimeInterval(
            value=origin + self._scale * sequence.mean,
            low=origin + self._scale * low,
            high=origin + self._scale * high,
            rows=self.rows,
            level=level,
        )


def why_no_anytime_interval(head: LoggedData, reward_range: tuple[float, float]) -> str:
    """Return why a log cannot have anytime-valid intervals; "" if it can."""
    if head.estimated:
        return "the propensities were estimated"
    if not all(map(math.isfinite, reward_range)):
        return "needs the range of rewards: --reward-range, in Python reward_range"
    if head.clusters is not None:
        return "rows of one cluster depend on each other"
    return ""


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotients; inf if only the denominator is 0, and 0 if both are."""
    if denominator.all():
        return numerator / denominator
    at_zero = np.where(numerator > 0.0, np.inf, 0.0)
    quotient: Floats = np.divide(numerator, denominator, out=at_zero, where=denominator > 0.0)
    return quotient
