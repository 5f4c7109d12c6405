"""The regret benchmark: comparisons, storage, page, CSV file and figure, tables of KEEL, Vowpal Wabbit."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.regret import candidates, keel, play, run, run_problem, vowpal
from benchmarks.regret.candidates import SUBJECT
from benchmarks.regret.environments import OneHotArms
from benchmarks.regret.problem import OTHERS, Problem
from benchmarks.regret.problems import PROBLEMS
from benchmarks.regret.results import PolicyResult, ProblemResult
from benchmarks.regret.run import write_report
from benchmarks.regret.run_problem import update
from benchmarks.regret.storage import read_keys, read_results
from benchmarks.regret.summary import is_better, overview, record_against
from benchmarks.regret.timing import measure

from glbandits.lab.environments import ClassificationTable, Environment
from glbandits.policies import Uniform


def policy_result(policy: str, regrets: list[float], *, is_tuned: bool = False) -> PolicyResult:
    seeds = tuple(range(1001, 1001 + len(regrets)))
    return PolicyResult(policy, is_tuned, "exploration=1", 5, 10, seeds, np.array(regrets), 0.01)


def problem_result(name: str = "iris") -> ProblemResult:
    results = (
        policy_result(SUBJECT, [10.0, 12.0, 40.0, 44.0]),
        policy_result("uniform", [100.0, 100.0, 100.0, 100.0]),
        policy_result("sgd-ts", [20.0, 24.0, 80.0, 88.0]),
        policy_result("pg-ts", [8.0, 9.6], is_tuned=True),  # a slow policy: the two easy seeds only
        policy_result("greedy", [9.0, 11.0, 38.0, 40.0]),
        policy_result("vw-squarecb", [11.0, 13.2, 44.0, 48.4]),
    )
    return ProblemResult(PROBLEMS[name], 1000, 6, results, (("lmc-ts", "over 0.5 s a run"),))


def tiny(_: Path) -> Environment:
    return OneHotArms(arms=3, best_mean=0.9, other_mean=0.1)


@pytest.mark.bench
def test_keel_tables_one_hot_encode_text() -> None:
    german = keel.load_table("german")
    assert (german.classes, german.block) == (2, 62)  # 7 numbers, 54 categories and a constant


@pytest.mark.bench
def test_vowpal_wabbit_learns_a_table() -> None:
    iris = ClassificationTable.bundled("iris")
    first, again = (
        [regret for regret, _ in vowpal.play(["vw-greedy", "vw-squarecb"], iris, 300, seed=1)] for _ in range(2)
    )
    assert first == again
    assert max(first) < 150  # uniform choices: 200


def test_policies_are_compared_on_common_seeds() -> None:
    result = problem_result()
    slow = result.results[3]
    assert slow.ratio(result.subject) == pytest.approx(0.8)  # 17.6 / 22, though its mean of two seeds is a third
    assert result.to_tuned.reference is slow
    assert result.to_tuned.value == pytest.approx(1.25)
    assert result.to_untuned.reference.policy == "greedy"
    assert result.to_untuned.value == pytest.approx(106 / 98)
    assert result.to_vowpal is not None
    assert result.to_vowpal.value == pytest.approx(1 / 1.1)
    assert result.to_vowpal.interval == pytest.approx((1 / 1.1, 1 / 1.1))  # the same ratio on every seed
    low, high = result.to_untuned.interval
    assert low <= result.to_untuned.value <= high


def test_significance_test() -> None:
    # z = 0.02 / sqrt((0.1 * 0.9 + 0.12 * 0.88) / 2000) = 2.02; p = 0.021.
    assert is_better(0.10, 0.12, 2000)
    assert not is_better(0.12, 0.10, 2000)
    assert not is_better(0.10, 0.12, 1000)  # z = 1.43; p = 0.076
    assert not is_better(0.0, 0.0, 1000)


def test_records_and_overviews() -> None:
    results = [problem_result("iris"), problem_result("one-hot-10")]
    record = record_against("sgd-ts", results)  # losses 0.0265 and 0.053 of 1000 rounds
    assert (record.wins, record.losses, record.tables) == (("iris",), (), 1)
    assert record_against("vw-squarecb", results).wins == ()
    subject = overview(SUBJECT, results)
    assert subject.default == pytest.approx(106 / 98)
    assert subject.tuned == pytest.approx(1.25)
    assert math.isnan(subject.by_kind[OTHERS])
    assert overview("sgd-ts", results).stuck_share == pytest.approx(0.5)


def test_stored_results_are_replaced_by_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("tiny", "three arms", tiny, 50)
    small = candidates.Effort(range(1, 3), range(1001, 1003), {"exploration": (0.1, 1.0)})
    monkeypatch.setattr(play, "effort_for", lambda *_: small)
    monkeypatch.setitem(PROBLEMS, "tiny", problem)
    update(problem, [SUBJECT, "lin-ts", "pg-ts", "vw-greedy"], tmp_path, jobs=1)
    (result,) = read_results(tmp_path)
    assert {(each.policy, each.is_tuned) for each in result.results} >= {
        (SUBJECT, False), ("lin-ts", False), ("lin-ts", True)
    }  # fmt: skip
    assert all(each.seeds == (1001, 1002) for each in result.results)
    keys = read_keys(tmp_path, "tiny")
    path = tmp_path / "results" / "tiny.json"
    path.write_text(path.read_text().replace(keys[SUBJECT], "old").replace(keys["lin-ts"], "old"))
    update(problem, [SUBJECT], tmp_path, jobs=1)
    assert read_keys(tmp_path, "tiny") == {**keys, "lin-ts": "old"}


def test_interrupted_run_continues_with_the_next_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = {name: Problem(name, "three arms", tiny, 50) for name in ("first", "second")}
    monkeypatch.setattr(run, "PROBLEMS", problems)
    monkeypatch.setattr(run, "write_report", lambda _: None)
    played: list[str] = []

    def play_until_interrupted(variants: Any, setup: Any) -> list[PolicyResult]:
        played.append("problem")
        if len(played) == 2:
            raise KeyboardInterrupt
        return play.play_variants(variants, setup)

    monkeypatch.setattr(run_problem, "play_variants", play_until_interrupted)
    arguments = ["--policies", "uniform", "--jobs", "1", "--out", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        run.main(arguments)
    run.main(arguments)
    assert len(played) == 3  # the first, the second, and the second again


@pytest.mark.usefixtures("plain_python")
def test_timing_stops_a_slow_policy() -> None:
    timing = measure(Uniform(), tiny(Path()), horizon=5000, seed=1, limit=0.0)
    assert timing.rounds < 5000


def test_estimate_counts_all_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.print_estimate([Problem("tiny", "three arms", tiny, 50)], ["uniform", "pg-ts", "vw-greedy"], tmp_path)
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} >= {"tiny", "uniform"}


def test_report_shows_all_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [problem_result("iris"), problem_result("one-hot-10")]
    monkeypatch.setattr("benchmarks.regret.run.read_results", lambda _: results)
    write_report(tmp_path)
    written = {"regret.md", "regret-problems.csv", "regret.csv", "regret.pdf", "regret.png", "regret.svg"}
    assert {path.name for path in tmp_path.iterdir()} == written
    assert len((tmp_path / "regret-problems.csv").read_text().splitlines()) == 3
    page = (tmp_path / "regret.md").read_text()
    assert "| all | 2 | 1.25 [1.25, 1.25] | 1.08 [" in page
    assert "| `vw-squarecb` | 0 | 1 | 0 |  |" in page  # others have a row if `optimist` loses to them
    with (tmp_path / "regret.csv").open() as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    assert len(rows) == 14
    assert math.isclose(float(rows[4]["relative_to_best_tuned"]), 1.25 * 98 / 106, rel_tol=1e-5)
