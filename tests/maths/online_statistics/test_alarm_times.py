"""Simulated times until an alarm, compared with `GroupDifference`."""

import math

import numpy as np
import pytest

from glbandits.maths.online_statistics.alarm_times import ALARM, LOOPS, alarm_times, value_distribution
from glbandits.maths.online_statistics.group_difference import BLOCK, GroupDifference, UnitRows


def test_beta_has_the_moments_of_its_arguments() -> None:
    for mean, concentration in ((0.08, 4.0), (0.08, 0.0), (0.5, 0.1), (0.9, 499.0), (0.3, 1e6)):
        values, probabilities = value_distribution(mean, concentration)
        assert values @ probabilities == pytest.approx(mean)
        variance = mean * (1.0 - mean) / (1.0 + concentration)
        assert np.square(values - mean) @ probabilities == pytest.approx(variance, rel=1e-6)


def test_larger_changes_and_smaller_margins_are_found_earlier() -> None:
    def half(changed: float, margin: float = 0.0) -> float:
        return float(alarm_times((changed, 0.3), 0.0, 0.2, margin, np.random.default_rng(0))[LOOPS // 2])

    assert half(0.1) < half(0.2) < half(0.2, margin=0.05)
    assert half(0.5) < half(0.4)
    assert math.isinf(half(0.3 + 1e-9))


def test_larger_control_groups_need_fewer_units() -> None:
    """Also with a small variance, for which the largest bets are the best."""
    for concentration in (0.0, 74.0):
        shares = (0.05, 0.1, 0.2, 0.5)
        times = [alarm_times((0.225, 0.25), concentration, each, 0.0, np.random.default_rng(0)) for each in shares]
        halves = [each[LOOPS // 2] for each in times]
        assert halves == sorted(halves, reverse=True)


@pytest.mark.statistics
@pytest.mark.parametrize(("share", "control", "changed"), [(0.5, 0.1, 0.05), (0.2, 0.05, 0.15)])
def test_half_of_loops_agree_with_the_comparison(share: float, control: float, changed: float) -> None:
    """In 60 loops, the median is further away than 25 % with a probability of about 1 %; the seed is fixed."""
    rng, times = np.random.default_rng(3), []
    for _ in range(60):
        difference = GroupDifference()
        while difference.log_evidence(0.0, higher_is_good=changed < control) < ALARM:
            treated = rng.random(BLOCK) >= share
            values = (rng.random(BLOCK) < np.where(treated, changed, control)).astype(np.float64)
            difference.add(UnitRows(treated, np.full(BLOCK, share), values, np.zeros((BLOCK, 2)), values < 0.0))
        times.append(difference.units)
    simulated = alarm_times((changed, control), 0.0, share, 0.0, np.random.default_rng(0))
    assert np.median(times) == pytest.approx(simulated[LOOPS // 2], rel=0.25)
