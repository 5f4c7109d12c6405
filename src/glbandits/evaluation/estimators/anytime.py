"""Anytime-valid intervals for the value of a target, from a log whose policy may learn.

The estimate is doubly robust with a reward model that learns as it reads: each row is predicted before it is learned.
See `confidence_sequence` for why the intervals hold at every row, for any logging policy, and when rewards drift.
"""

import math
from dataclasses import dataclass

import numpy as np

from glbandits.compilation import entry_point
from glbandits.errors import InvalidInput
from glbandits.evaluation.estimators.intervals import Interval
from glbandits.evaluation.logs.logged_data import LoggedData
from glbandits.evaluation.models.reward_models import SequentialGlm
from glbandits.maths.links import Link
from glbandits.maths.online_statistics.confidence_sequence import ConfidenceSequence, add_recipe, rows_to_exclude_zero
from glbandits.records import Floats


@dataclass(frozen=True, kw_only=True)
class AnytimeInterval:
    """An estimate and its interval, which holds at every number of rows at once."""

    value: float
    low: float
    high: float
    rows: int
    level: float

    @property
    def interval(self) -> Interval:
        """Both bounds."""
        return Interval(self.low, self.high)

    def rows_to_exclude_zero(self) -> float:
        """About how many rows are needed in all until the sign is known, if the estimate is right; may be infinite."""
        return rows_to_exclude_zero(self.rows, self.value, self.low, self.high)


class AnytimeIntervals:
    """Reads a log once, in order, and knows at every row the interval of a target's value and of its gain over the log.

    Args:
        dim: features of an arm.
        link: of the reward model.
        reward_range: lowest and highest reward that there can be.
        least_propensity: the least probability that the logging policy gave to any arm that the target may choose. It
            serves logs without the probabilities of all arms; without either, the reward model is not used.
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
        entry_point(add_recipe).compiled()  # many rows follow
        self._value, self._gain = ConfidenceSequence(0.0), ConfidenceSequence(-1.0)

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._value.rows

    def add(self, block: LoggedData, target: Floats, predicted: Floats | None = None) -> None:
        """Add the next rows.

        Args:
            block: the rows.
            target: the target's probabilities of their arms, (rows, most).
            predicted: rewards that a model expects of their arms, (rows, most), which for each row has learned only
                from rows before it; by default a model of its own. Targets of the same log can share one.
        """
        assert block.propensities is not None
        rewards = (block.rewards - self._lowest) / self._scale
        outside = (rewards < 0.0) | (rewards > 1.0)
        if outside.any():
            raise InvalidInput(
                f"reward_range is {self._lowest:g} to {self._lowest + self._scale:g}, but a row has the reward "
                f"{block.rewards[np.argmax(outside)]:g}. Give a wider one."
            )
        predicted = self._model.predict_then_learn(block) if predicted is None else predicted
        predicted = np.clip((predicted - self._lowest) / self._scale, 0.0, 1.0)
        predicted[~block.there] = 0.0
        weights = target[np.arange(len(block)), block.chosen] / block.propensities
        logged, chosen = _probabilities(block), block.chosen
        reach = self._reach(block, target, logged)
        self._value.add(
            measure=target, reach=reach, chosen=chosen, weights=weights, rewards=rewards, predicted=predicted
        )
        if logged is None:
            self._gain.add(
                measure=target,
                reach=reach,
                chosen=chosen,
                weights=weights,
                rewards=rewards,
                predicted=predicted,
                offset=-rewards,
            )
        else:
            difference = target - logged
            self._gain.add(
                measure=difference,
                reach=_ratio(np.abs(difference), logged),
                chosen=chosen,
                weights=weights - 1.0,
                rewards=rewards,
                predicted=predicted,
            )

    def _reach(self, block: LoggedData, target: Floats, logged: Floats | None) -> Floats | None:
        if logged is not None:
            return _ratio(target, logged)
        if self._least is None:
            return None
        assert block.propensities is not None
        if block.propensities.min() < self._least:
            raise InvalidInput(
                f"least_propensity is {self._least:g}, but a row has the propensity {block.propensities.min():.3g}. "
                "Give a smaller one, or leave it out."
            )
        return target / self._least

    def value(self, level: float) -> AnytimeInterval:
        """The mean reward of a decision, had the target decided."""
        low, high = self._value.interval(level)
        return AnytimeInterval(
            value=self._lowest + self._scale * self._value.mean,
            low=self._lowest + self._scale * low,
            high=self._lowest + self._scale * high,
            rows=self.rows,
            level=level,
        )

    def gain(self, level: float) -> AnytimeInterval:
        """How much more the target would have earned for a decision than the logging policy would on average."""
        low, high = self._gain.interval(level)
        return AnytimeInterval(
            value=self._scale * self._gain.mean,
            low=self._scale * low,
            high=self._scale * high,
            rows=self.rows,
            level=level,
        )


def why_none(head: LoggedData, reward_range: tuple[float, float]) -> str | None:
    """Return why a log cannot have anytime-valid intervals; None if it can."""
    if head.estimated:
        return "the propensities were estimated"
    if not all(map(math.isfinite, reward_range)):
        return "rewards have no bounds; give reward_range"
    if head.clusters is not None:
        return "rows of one cluster depend on each other"
    return None


def _probabilities(block: LoggedData) -> Floats | None:
    """Of all arms, as far as the log tells: of two arms that all rows have, one propensity tells both."""
    if block.probabilities is not None or block.arms.most != 2 or not block.arms.same_arms:
        return block.probabilities
    assert block.propensities is not None
    of_first = np.where(block.chosen == 0, block.propensities, 1.0 - block.propensities)
    return np.stack([of_first, 1.0 - of_first], axis=1)


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; infinite where only `below` is 0, and 0 where both are."""
    missing = np.where(above > 0.0, np.inf, 0.0)
    quotient: Floats = np.divide(above, below, out=missing, where=below > 0.0)
    return quotient
