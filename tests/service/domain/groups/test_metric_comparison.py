"""Comparisons of simulated units: false alarms and detection, looked at after every block."""

from collections.abc import Iterable

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.events import Group, LoggedDecision, LoggedReward, UnitStart
from glbandits.service.domain.groups.experiment import GuardrailAction, MetricSettings, UnitCombination
from glbandits.service.domain.groups.metric_comparison import MetricComparison, Units
from glbandits.service.domain.groups.unit_outcomes import UnitLog
from tests.service.helpers import decision

SETTINGS = MetricSettings(
    range=(0.0, 1.0), good="lower", combine=UnitCombination.MEAN, window=60.0, action=GuardrailAction.FALLBACK
)


def unit_log(
    first: int, rng: np.random.Generator, share: float, rates: tuple[float, float], lost: float = 0.0
) -> UnitLog:
    """A unit that comes back up to 5 times.

    `rates`: how often treatment and control return. `lost`: the share of units of treatment whose numbers are lost.
    """
    is_treated, decisions = bool(rng.random() >= share), int(rng.integers(1, 6))
    is_lost = is_treated and rng.random() < lost
    unit, group = UnitLog(UnitStart(first, first)), Group.TREATMENT if is_treated else Group.CONTROL
    for number in range(decisions):
        returned = float(rng.random() < rates[0 if is_treated else 1])
        sequence = first + number
        made = decision(str(sequence), sequence, group=group, control_share=share)
        numbers = (LoggedReward(sequence, sequence, returned, "", False, "returned"),)
        unit.add(LoggedDecision(sequence, made, () if is_lost else numbers, None))
    return unit


def outcomes(units: Iterable[UnitLog], settings: MetricSettings = SETTINGS) -> Units:
    return [(unit.start, unit.outcome("returned", settings)) for unit in units]


def with_lost_numbers(seed: int, settings: MetricSettings, rates: tuple[float, float], lost: float) -> MetricComparison:
    """A comparison of 1,600 units, half of them in control. `rates` and `lost` are those of `unit_log`."""
    rng = np.random.default_rng(seed)
    page = [unit_log(10 * number + 1, rng, 0.5, rates, lost) for number in range(1600)]
    return MetricComparison(settings=settings, after=0).with_units("returned", outcomes(page, settings), now=0)


@pytest.mark.parametrize("good", ["lower", "higher"])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_lost_in_one_group_neither_stop_a_loop_nor_make_it_better(seed: int, good: str) -> None:
    settings = replace(SETTINGS, good="lower" if good == "lower" else "higher")
    comparison = with_lost_numbers(seed, settings, (0.8, 0.8), 0.1)
    report = comparison.report("returned", waiting=0)
    assert (comparison.alarm, report.state) == (None, "incomplete")
    assert report.treatment.missing == pytest.approx(0.1, abs=0.04)
    assert report.control.missing == 0.0
    assert "better" not in report.sentence
    assert report.sentence.startswith("returned cannot be compared: no number came for ")


def test_harm_that_lost_numbers_cannot_explain_is_an_alarm() -> None:
    assert with_lost_numbers(0, SETTINGS, (0.9, 0.1), 0.1).alarm is not None
    slightly = with_lost_numbers(0, SETTINGS, (0.58, 0.42), 0.2)
    assert (slightly.alarm, slightly.is_incomplete) == (None, True)
    assert with_lost_numbers(0, SETTINGS, (0.58, 0.42), 0.0).alarm is not None


def test_a_missing_number_is_the_default_if_there_is_one() -> None:
    sales = replace(SETTINGS, good="higher", default=0.0)
    for settings in (sales, replace(sales, default=None, combine=UnitCombination.SUM)):
        fewer = with_lost_numbers(0, settings, (0.8, 0.8), 0.4)
        assert fewer.alarm is not None
        assert "no number came for" in fewer.alarm.sentence
    report = with_lost_numbers(0, SETTINGS, (0.8, 0.8), 0.0).report("returned", waiting=0)
    assert (report.treatment.missing, "no number" in report.sentence) == (0.0, False)


def test_a_metric_that_never_comes_asks_for_a_default() -> None:
    rng = np.random.default_rng(0)
    page = [unit_log(10 * number + 1, rng, 0.5, (0.0, 0.0)) for number in range(64)]
    units = [(unit.start, unit.outcome("x", SETTINGS)) for unit in page]
    report = MetricComparison(settings=SETTINGS, after=0).with_units("x", units, now=0).report("x", waiting=0)
    assert (report.state, report.treatment.units, report.treatment.missing) == ("early", 0, 1.0)
    assert "set default" in report.sentence


def units_until_alarm(seed: int, units: int, share: float, rates: tuple[float, float], lost: float = 0.0) -> int | None:
    """The units that were counted at the alarm; None if there was none."""
    rng, comparison = np.random.default_rng(seed), MetricComparison(settings=SETTINGS, after=0)
    for start in range(0, units, 160):
        page = [unit_log(10 * number + 1, rng, share, rates, lost) for number in range(start, start + 160)]
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
def test_loops_that_lose_numbers_of_treatment_rarely_stop() -> None:
    alarms = [units_until_alarm(seed, 1_600, 0.2, (0.3, 0.3), lost=0.1) for seed in range(50)]
    assert sum(alarm is not None for alarm in alarms) <= 6  # 2.5 are allowed on average; more than 6 has 1 %


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
