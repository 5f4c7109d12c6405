"""Anytime-valid intervals for the value of a target, from a log whose policy may learn.

The estimate is doubly robust. Its reward model predicts each row before it learns the row. `confidence_sequence`
explains why the intervals hold at every number of rows, for any logging policy, and when rewards drift.
"""

import math
from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import entry_point
from glbandits.evaluation.estimators.intervals import Interval
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.maths.links import Link
from glbandits.maths.online_statistics.confidence_sequence import ConfidenceSequence, add_recipe, rows_to_exclude_zero


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
        dim: number of features of an arm.
        link: link of the reward model.
        reward_range: lowest and highest possible reward.
        least_propensity: lower bound on the probabilities that the logging policy gave to arms that the target may
            choose, for logs without the probabilities of all arms. Without either, the reward model is not used.
        sparse: whether the log has sparse rows.
    """

    def __init__(
        self,
        dim: int,
        link: Link,
        reward_range: tuple[float, float],
        least_propensity: float | None = None,
        *,
        sparse: bool = False,
    ) -> None:
        self._model = SequentialGlm(link, dim, sparse=sparse)
        self._lowest, self._scale = reward_range[0], reward_range[1] - reward_range[0]
        self._least = least_propensity
        entry_point(add_recipe).compiled()  # compile now: many rows follow
        self._value, self._gain, self._difference = (ConfidenceSequence(low) for low in (0.0, -1.0, -1.0))

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self._value.rows

    def add(
        self,
        block: LoggedData,
        target: Floats,
        predicted: Floats | None = None,
        *,
        reference: Floats | None = None,
    ) -> None:
        """Add the next rows.

        Args:
            block: the rows.
            target: the target's probabilities of the arms, (rows, max_arms).
            predicted: expected rewards of the arms, (rows, max_arms), by a model that had learned only earlier rows. By
                default an internal model. Targets on the same log can share the predictions of one model.
            reference: the reference's probabilities of the arms, (rows, max_arms); in all blocks, or in none.
        """
        assert block.propensities is not None
        rewards = (block.rewards - self._lowest) / self._scale
        outside = (rewards < 0.0) | (rewards > 1.0)
        if outside.any():
            raise InvalidInput(
                f"rewards must be within reward_range, {self._lowest:g} to {self._lowest + self._scale:g}; got "
                f"{block.rewards[np.argmax(outside)]:g}. Set a wider reward_range."
            )
        predicted = self._model.predict_then_learn(block) if predicted is None else predicted
        predicted = np.clip((predicted - self._lowest) / self._scale, 0.0, 1.0)
        predicted[~block.arm_mask] = 0.0
        logged, propensities = _probabilities(block), block.propensities

        def add_to(sequence: ConfidenceSequence, measure: Floats, offset: Floats | float = 0.0) -> None:
            sequence.add(
                measure=measure,
                reach=self._weight_bounds(block, measure, logged),
                chosen=block.chosen,
                weights=_chosen(measure, block) / propensities,
                rewards=rewards,
                predicted=predicted,
                offset=offset,
            )

        add_to(self._value, target)
        if logged is None:
            add_to(self._gain, target, offset=-rewards)
        else:
            add_to(self._gain, target - logged)
        if reference is not None:
            add_to(self._difference, target - reference)

    def _weight_bounds(self, block: LoggedData, measure: Floats, logged: Floats | None) -> Floats | None:
        """Upper bounds of |measure| / p of all arms, (rows, max_arms); None if unknown."""
        if logged is not None:
            return _ratio(np.abs(measure), logged)
        if self._least is None:
            return None
        assert block.propensities is not None
        may_choose = _chosen(measure, block) != 0.0
        smallest = block.propensities.min(where=may_choose, initial=1.0)
        if smallest < self._least:
            raise InvalidInput(
                f"propensities must be at least least_propensity, {self._least:g}; got {smallest:.3g}. "
                "Set a smaller least_propensity, or leave it out."
            )
        return np.abs(measure) / self._least

    def value(self, level: float) -> AnytimeInterval:
        """Return the interval of the value of the target."""
        low, high = self._value.interval(level)
        return AnytimeInterval(
            value=self._lowest + self._scale * self._value.mean,
            low=self._lowest + self._scale * low,
            high=self._lowest + self._scale * high,
            rows=self.rows,
            level=level,
        )

    def gain(self, level: float) -> AnytimeInterval:
        """Return the interval of the gain: the value of the target minus that of the log."""
        return self._scaled(self._gain, level)

    def difference(self, level: float) -> AnytimeInterval:
        """Return the interval of the difference: the value of the target minus that of the reference."""
        return self._scaled(self._difference, level)

    def _scaled(self, sequence: ConfidenceSequence, level: float) -> AnytimeInterval:
        """The interval of a difference of values, in units of the rewards."""
        low, high = sequence.interval(level)
        return AnytimeInterval(
            value=self._scale * sequence.mean,
            low=self._scale * low,
            high=self._scale * high,
            rows=self.rows,
            level=level,
        )


def why_no_anytime_interval(head: LoggedData, reward_range: tuple[float, float]) -> str | None:
    """Return why a log cannot have anytime-valid intervals; None if it can."""
    if head.estimated:
        return "the propensities were estimated"
    if not all(map(math.isfinite, reward_range)):
        return "needs a reward range"
    if head.clusters is not None:
        return "rows of one cluster depend on each other"
    return None


def _probabilities(block: LoggedData) -> Floats | None:
    """Probabilities of all arms; None if unknown.

    With two arms in all rows, the propensity determines both.
    """
    if block.probabilities is not None or block.arms.max_arms != 2 or not block.arms.same_arms:
        return block.probabilities
    assert block.propensities is not None
    of_first = np.where(block.chosen == 0, block.propensities, 1.0 - block.propensities)
    return np.stack([of_first, 1.0 - of_first], axis=1)


def _chosen(measure: Floats, block: LoggedData) -> Floats:
    """The measure of the chosen arms, (rows,)."""
    chosen: Floats = measure[np.arange(len(block)), block.chosen]
    return chosen


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotients; inf if only the denominator is 0, and 0 if both are."""
    at_zero = np.where(numerator > 0.0, np.inf, 0.0)
    quotient: Floats = np.divide(numerator, denominator, out=at_zero, where=denominator > 0.0)
    return quotient
