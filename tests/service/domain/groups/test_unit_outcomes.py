"""The numbers of units, from logged decisions that no store has written."""

import itertools
from typing import Any

import pytest

from glbandits.service.domain.events import Group, LoggedDecision, LoggedReward, Mode, UnitStart
from glbandits.service.domain.groups.experiment import REWARD, MetricSettings, UnitCombination
from glbandits.service.domain.groups.unit_outcomes import UnitLog, UnitOutcome
from tests.service.helpers import decision

SINCE = 1_000_000
WINDOW = 10_000_000
"""Microseconds."""
START = UnitStart(7, SINCE)
ASSIGNED: dict[str, Any] = {"group": Group.CONTROL, "control_share": 0.1}


def settings(combine: UnitCombination = UnitCombination.MEAN, **changed: Any) -> MetricSettings:
    own: dict[str, Any] = {"range": (0.0, 10.0), "combine": combine, "window": 10.0}
    return MetricSettings(**own | changed)


def number(sequence: int, value: float, after: int = 0, *, late: bool = False, metric: str = "m") -> LoggedReward:
    """A number that came some microseconds after the first decision."""
    return LoggedReward(sequence, SINCE + after, value, str(sequence), late, metric)


def logged(sequence: int, *numbers: LoggedReward, after: int = 0, **changed: Any) -> LoggedDecision:
    made = decision(str(sequence), SINCE + after, **ASSIGNED | changed)
    return LoggedDecision(sequence, made, numbers, None)


def value_of(name: str, metric: MetricSettings, *decisions: LoggedDecision) -> float:
    """The number of a unit, in the unit of the metric, whatever the order in which its decisions are read."""
    found = set()
    for order in itertools.permutations(decisions):
        unit = UnitLog(START)
        for each in order:
            unit.add(each)
        outcome = unit.outcome(name, metric)
        assert outcome is not None
        found.add(outcome.value)
    (value,) = found
    return 10.0 * value


@pytest.mark.parametrize(("combine", "expected"), [("sum", 7.0), ("mean", 7.0 / 3.0), ("last", 4.0)])
def test_numbers_of_all_decisions_of_a_unit_are_combined(combine: str, expected: float) -> None:
    first = logged(7, number(9, 1.0, 5), number(12, 4.0, 8))
    second = logged(8, number(10, 2.0, 7), number(11, 9.0, metric="other"), after=3)
    assert value_of("m", settings(UnitCombination(combine)), first, second) == pytest.approx(expected, rel=1e-15)


def test_the_last_of_two_numbers_at_the_same_time_is_the_later_one_in_the_log() -> None:
    first, second = logged(7, number(12, 4.0, 5)), logged(8, number(10, 2.0, 5))
    assert value_of("m", settings(UnitCombination.LAST), first, second) == 4.0


def test_a_unit_without_numbers_counts_as_the_default() -> None:
    metric = settings(default=3.0)
    assert value_of("m", metric, logged(7)) == 3.0
    assert value_of("m", metric, logged(7, number(9, 5.0, late=True))) == 3.0
    assert value_of("m", metric, logged(7, number(9, 5.0, WINDOW + 1))) == 3.0
    assert value_of("m", metric, logged(7, number(9, 5.0, WINDOW))) == 5.0


@pytest.mark.parametrize(("sent", "counted"), [(-1.0, 0.0), (11.0, 10.0), (1.7e308, 10.0), (-1.7e308, 0.0)])
def test_numbers_outside_the_range_count_as_its_bounds(sent: float, counted: float) -> None:
    numbers = [number(9, sent), number(10, sent)]
    assert value_of("m", settings(UnitCombination.SUM), logged(7, *numbers)) == counted


@pytest.mark.parametrize(("combine", "expected"), [("sum", 5.0), ("mean", 2.5), ("last", 2.0)])
def test_the_reward_of_a_unit_combines_its_decisions_in_the_window(combine: str, expected: float) -> None:
    first = logged(7, number(9, 3.0, metric=""), number(10, 99.0))
    second = logged(8, after=WINDOW, default_reward=2.0)
    outside = logged(11, number(12, 9.0, WINDOW + 2, metric=""), after=WINDOW + 1)
    unlearned = logged(13, number(14, 9.0, metric=""), deferred=True)
    metric = settings(UnitCombination(combine))
    assert value_of(REWARD, metric, first, second, outside, unlearned) == expected
    unit = UnitLog(START)
    for each in (outside, second, first):
        unit.add(each)
    assert unit.last_decision(metric) == 8


@pytest.mark.parametrize("changed", [{"group": None}, {"fallback": True}, {"mode": Mode.APPRENTICE}])
def test_only_the_first_decision_says_whether_a_unit_counts(changed: dict[str, Any]) -> None:
    excluded, counted = UnitLog(START), UnitLog(START)
    excluded.add(logged(7, **changed))
    excluded.add(logged(8))
    assert excluded.outcome("m", settings()) is None
    counted.add(logged(8, group=Group.TREATMENT, control_share=0.5))
    assert counted.outcome("m", settings()) is None, "the first decision was deleted"
    counted.add(logged(7, predicted=(0.2, 0.3)))
    counted.add(logged(9, **changed))
    assert counted.outcome("m", settings()) == UnitOutcome(False, 0.1, 0.0, (0.2, 0.3), missing=True)
