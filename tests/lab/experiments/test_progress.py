import pytest

from glbandits import EpsilonGreedy, SgdTs
from glbandits.lab import Synthetic
from glbandits.lab.experiments.missing_runs import Workload
from glbandits.lab.experiments.progress import OverallProgress
from glbandits.lab.experiments.result_store import FinishedRun
from glbandits.lab.experiments.run_spec import RunSpec


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


def test_measured_runs_replace_guesses_and_stored_runs_are_free() -> None:
    problem = Synthetic(dim=3, arms=5)
    specs = [RunSpec(policy, problem, 1000, seed) for policy in (SgdTs(), EpsilonGreedy()) for seed in range(4)]
    workload = Workload([*specs, *specs])  # the same run twice is one run
    run = FinishedRun(0.499, *[None] * 3)  # type: ignore[arg-type]  # only its seconds count here
    assert workload.done == 0.0
    assert workload.seconds(workload.kind(specs[4])) > workload.seconds(workload.kind(specs[0]))
    workload.skip(specs[0], run)
    assert workload.done == 0.0
    assert workload.seconds(workload.kind(specs[1])) == pytest.approx(0.5)
    for spec in specs[1:4]:
        workload.finish(spec, run)
    assert workload.done == pytest.approx(1.5)
    for spec in specs[4:]:
        workload.finish(spec, run)
    assert workload.done == pytest.approx(workload.total)
