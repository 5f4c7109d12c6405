"""The number of a unit in the comparison of treatment and control, from its logged decisions."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from glbandits.common.errors import MAX_ABS
from glbandits.service.domain.events import Group, LoggedDecision, Mode, UnitStart
from glbandits.service.domain.groups.experiment import REWARD, MetricSettings, UnitCombination
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.domain.reward_aggregation import reward_of

UNIT_DECISIONS = 1_000
"""Decisions of a unit that count, the first ones, so that the time and memory for a unit are bounded."""


class UnitOutcome(NamedTuple):
    """A unit in the comparison by one metric."""

    treated: bool
    share: float
    """The probability with which the unit was assigned to control."""
    value: float
    """Its number on the scale of 0 to 1. If it is missing, that of `MetricSettings.value_if_missing`, else 0."""
    predicted: tuple[float, float]
    """`Decision.predicted` of its first decision."""
    missing: bool = False
    """Whether no number came for it."""


def closes_at(start: UnitStart, settings: MetricSettings) -> int:
    """Return the timestamp at which the window of a metric closes for a unit."""
    return start.since + round(settings.seconds * SECOND)


class UnitLog:
    """The part of the decisions of a unit that its numbers depend on: without features, so it is small.

    Args:
        start: the first decision of the unit.
    """

    def __init__(self, start: UnitStart) -> None:
        self.start = start
        self._assigned: tuple[bool, float, tuple[float, float]] | None = None
        self._decisions: list[tuple[int, int, float | None]] = []
        """Timestamp, sequence number and reward of each decision."""
        self._numbers: dict[str, list[tuple[int, int, float]]] = {}
        """Timestamp, sequence number and value of the numbers of each metric."""

    def add(self, logged: LoggedDecision) -> None:
        """Add a decision of the unit with its rewards and metrics, in any order."""
        decision = logged.decision
        is_compared = decision.group is not None and decision.mode is Mode.ONLINE and not decision.fallback
        if logged.sequence == self.start.first and is_compared:
            treated = decision.group is Group.TREATMENT
            self._assigned = treated, decision.control_share, decision.predicted or (0.0, 0.0)
        self._decisions.append((decision.timestamp, logged.sequence, reward_of(logged.settled())))
        for number in logged.rewards:
            if number.metric and not number.late and number.value is not None:
                numbers = self._numbers.setdefault(number.metric, [])
                numbers.append((number.timestamp, number.sequence, number.value))

    def last_decision(self, settings: MetricSettings) -> int:
        """Return the largest sequence number of the decisions in the window of a metric; 0 if there is none."""
        closes = closes_at(self.start, settings)
        return max((sequence for timestamp, sequence, _ in self._decisions if timestamp <= closes), default=0)

    def outcome(self, name: str, settings: MetricSettings) -> UnitOutcome | None:
        """Return the outcome for a metric.

        None if the unit does not count: at its first decision the loop had no control group, was in fallback or in
        another mode than Online, or this decision is not in the log.
        """
        if self._assigned is None:
            return None
        treated, share, predicted = self._assigned
        return outcome_of(treated, share, self.number(name, settings), predicted, settings)

    def number(self, name: str, settings: MetricSettings) -> float | None:
        """Return the number of the unit in the unit of the metric, perhaps outside the range; None if none came."""
        closes = closes_at(self.start, settings)
        if name == REWARD:  # in the order of the log, also if a clock has stepped back
            made = sorted((sequence, reward) for at, sequence, reward in self._decisions if at <= closes)
            numbers = [reward for _, reward in made if reward is not None]
        else:
            received = sorted(self._numbers.get(name, ()))
            numbers = [min(max(value, -MAX_ABS), MAX_ABS) for at, _, value in received if at <= closes]
        return combined(numbers, settings.combine) if numbers else None


def outcome_of(
    treated: bool, share: float, number: float | None, predicted: tuple[float, float], settings: MetricSettings
) -> UnitOutcome:
    """Return the outcome of a unit with this number; None if none came."""
    default = settings.value_if_missing
    value = settings.scaled(number) if number is not None else 0.0 if default is None else settings.scaled(default)
    return UnitOutcome(treated, share, value, predicted, missing=number is None)


def combined(numbers: Sequence[float], how: UnitCombination) -> float:
    """Return one number for several of a metric, at least one, in the order in which they came."""
    if how is UnitCombination.LAST:
        return numbers[-1]
    total = math.fsum(numbers)
    return total if how is UnitCombination.SUM else total / len(numbers)
