"""Statistical tests of half_life="auto", on fixed seeds.

The stated false-alarm rates are those of other sets of seeds of the same size, from a bootstrap of 120 and 400
seeds.
"""

import pytest
from benchmarks.drift import Drifting, final_regret, report


@pytest.mark.slow
def test_auto_is_near_the_best_half_life_on_jumps() -> None:
    # The ratio of 10 seeds is 0.90 with a standard deviation of 0.04: 1.3 is 10 deviations away (false alarms: < 1e-6).
    problem, seeds = Drifting(dim=4, arms=10, change="jumps", period=1000), range(1, 11)
    fixed = [final_regret(half_life, problem, 4000, seeds).mean() for half_life in (None, 1000.0, 250.0, 120.0, 60.0)]
    assert final_regret("auto", problem, 4000, seeds).mean() <= 1.3 * min(fixed)


@pytest.mark.slow
def test_auto_costs_little_if_nothing_changes() -> None:
    # The ratio of 60 seeds is 1.006 with a standard deviation of 0.010 (false alarms: less than 1e-4).
    problem, seeds = Drifting(dim=4, arms=10), range(1, 61)
    auto, none = (final_regret(half_life, problem, 4000, seeds).mean() for half_life in ("auto", None))
    assert auto <= 1.1 * none


def test_quick_report_prints_every_half_life(capsys: pytest.CaptureFixture[str]) -> None:
    report(development=range(2), reporting=range(2), horizon=50, problems=1)
    printed = capsys.readouterr().out
    assert "Development problems" in printed
    assert "Reporting problems" in printed
    assert printed.count("auto / None") == 2
