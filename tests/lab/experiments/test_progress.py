import pytest

from glbandits.lab.experiments.progress import OverallProgress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_parts_with_different_units_give_one_estimate() -> None:
    clock, reports = Clock(), list[tuple[str, float, float]]()
    overall = OverallProgress(lambda *report: reports.append(report), {"play": 100.0, "cost": 50.0}, clock)
    play, cost = overall.part("play"), overall.part("cost")
    play("playing", 0, 8)
    assert reports[-1] == ("playing", 0.0, 150.0)  # first guesses
    clock.now = 10.0
    play("playing", 2, 8)  # a quarter took 10 s, so 30 s remain, not 75
    assert reports[-1] == ("playing", 10.0, 10.0 + 30.0 + 50.0)
    clock.now = 40.0
    play("playing", 8, 8)
    cost("timing", 0, 3)
    assert reports[-1] == ("timing", 40.0, 90.0)
    clock.now = 52.0
    cost("timing", 1, 3)
    assert reports[-1][2] == pytest.approx(52.0 + 24.0)
    cost("timing", 3, 3)
    assert reports[-1][1] == reports[-1][2]


def test_part_without_work_is_done() -> None:
    reports = list[tuple[str, float, float]]()
    overall = OverallProgress(lambda *report: reports.append(report), {"play": 100.0}, Clock())
    overall.part("play")("playing", 0, 0)
    assert reports[-1][2] == 0.0
