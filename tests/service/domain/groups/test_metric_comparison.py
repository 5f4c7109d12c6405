"""Comparisons of simulated units: false alarms and detection, looked at after every block."""

from collections.abc import Iterable

import numpy as np
import pytest

from glbandits.service.domain.events import Group, LoggedDecision, LoggedReward, UnitStart
from glbandits.service.domain.groups.experiment import Combination, GuardrailAction, MetricSettings
from glbandits.service.domain.groups.metric_comparison import MetricComparison, Units
from glbandits.service.domain.groups.unit_outcomes import UnitLog
from tests.service.helpers import decision

SETTINGS = MetricSettings(
    range=(0.0, 1.0), good="lower", combine=Combination.MEAN, window=60.0, action=GuardrailAction.FALLBACK
)


def unit_log(first: int, rng: np.random.Generator, share: float, rates: tuple[float, float]) -> UnitLog:
    """A unit that comes back up to 5 times. `rates`: how often treatment and control return."""
    is_treated, decisions = bool(rng.random() >= share), int(rng.integers(1, 6))
    unit, group = UnitLog(UnitStart(first, first)), Group.TREATMENT if is_treated else Group.CONTROL
    for number in range(decisions):
        returned = float(rng.random() < rates[0 if is_treated else 1])
        sequence = first + number
        made = decision(str(sequence), sequence, group=group, control_share=share)
        numbers = (LoggedReward(sequence, sequence, returned, "", False, "returned"),)
        unit.add(LoggedDecision(sequence, made, numbers, None))
    return unit


def outcomes(units: Iterable[UnitLog]) -> Units:
    return [(unit.start, unit.outcome("returned", SETTINGS)) for unit in units]


def units_until_alarm(seed: int, units: int, share: float, rates: tuple[float, float]) -> int | None:
    """The units that were counted at the alarm; None if there was none."""
    rng, comparison = np.random.default_rng(seed), MetricComparison(settings=SETTINGS, after=0)
    for start in range(0, units, 160):
        page = [unit_log(10 * number + 1, rng, share, rates) for number in range(start, start + 160)]
        comparison = comparison.with_units("returned", outcomes(page), now=0)
        if comparison.alarm is not None:
            return comparison.alarm.units
    assert not comparison.wrong_ratio
    return None


@pytest.mark.statistics
def test_loops_without_a_difference_rarely_raise_an_alarm() -> None:
    alarms = [units_until_alarm(seed, 1_600, 0.2, (0.3, 0.3)) for seed in range(100)]
    assert sum(alarm is not None for alarm in alarms) <= 8  # 5 are allowed on average; more than 8 has 3 %


@pytest.mark.statistics
def test_loops_that_do_harm_are_found() -> None:
    alarms = [units_until_alarm(seed, 3_200, 0.2, (0.4, 0.3)) for seed in range(20)]
    assert sum(alarm is not None for alarm in alarms) >= 18


def test_a_clear_harm_is_found_at_the_same_unit_whatever_the_pages() -> None:
    rng = np.random.default_rng(0)
    units = [unit_log(10 * number + 1, rng, 0.5, (0.9, 0.1)) for number in range(320)]
    whole = MetricComparison(settings=SETTINGS, after=0).with_units("returned", outcomes(units), now=5)
    pieces = MetricComparison(settings=SETTINGS, after=0)
    for unit in units:
        pieces = pieces.with_units("returned", outcomes([unit]), now=5)
    assert pieces == whole
    assert whole.alarm is not None
    assert whole.alarm.units < 320
    assert whole.alarm.units % 32 == 0
