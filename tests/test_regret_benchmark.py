"""What of the regret benchmark needs no compiling: who plays with what, the clock, the comparison and the tables."""

import csv
import math
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.regret.contestants import FULL, LESS, SUBJECT, contestant, typical
from benchmarks.regret.figure import draw
from benchmarks.regret.problems import PROBLEMS
from benchmarks.regret.results import Player, ProblemResult
from benchmarks.regret.tables import console_table, markdown, write_csv
from benchmarks.regret.timings import _OutOfTime, _Watched

from glbandits import POLICIES, InvalidInput
from glbandits.environments import ClassificationTable, Synthetic
from glbandits.errors import GlbanditsError
from glbandits.policy import settings_of

SIMULATION = Synthetic(dim=6, arms=100)


def player(label: str, finals: list[float], first_seed: int = 1001) -> Player:
    seeds = tuple(range(first_seed, first_seed + len(finals)))
    return Player(label, "exploration=1", 5, 10, seeds, np.array(finals), 0.01)


def result(name: str = "small") -> ProblemResult:
    players = (
        player(SUBJECT, [10.0, 12.0, 40.0, 44.0]),
        player("sgd-ts", [20.0, 24.0, 80.0, 88.0]),
        player("pg-ts", [8.0, 9.6]),  # a slow one: the two easy seeds only
        player("greedy", [9.0, 11.0, 38.0, 40.0]),
    )
    return ProblemResult(name, "in words", 1000, 6, players, (("lmc-ts", "over 4 s a run"),))


def dawdle(watched: _Watched) -> None:
    """Take 20 ms of CPU for each piece."""
    for _ in watched.rounds(1000, seed=1):
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass


def test_every_policy_has_a_grid_of_its_own_for_every_link() -> None:
    refused = set()
    for link in ("logistic", "identity", "probit", "log"):
        for name in POLICIES:
            for grid in (FULL.grid, LESS.grid):
                try:
                    one = contestant(name, SIMULATION, link, 1000, grid)
                    policies = one.settings()
                except InvalidInput:
                    refused.add((name, link))
                    continue
                assert all(settings_of(policy).get("horizon", 1000) == 1000 for policy in policies)
                assert settings_of(typical(one)).get("link", link) == link
    assert {name for name, _ in refused} == {"pg-ts", "ecolog", "lmc-ts"}
    assert ("lmc-ts", "log") in refused


def test_the_grids_are_those_that_the_page_tells_of() -> None:
    sizes = {name: len(contestant(name, SIMULATION, "logistic", 1000, FULL.grid).settings()) for name in POLICIES}
    assert sizes[SUBJECT] == sizes["uniform"] == sizes["greedy"] == 1
    assert (sizes["lin-ts"], sizes["ucb-glm"], sizes["gloc"], sizes["online-laplace"]) == (5, 10, 20, 15)
    assert sizes["sgd-ts"] == 36


def test_policies_are_told_the_blocks_of_a_table_and_play_at_random_for_half_of_it_at_most() -> None:
    digits = ClassificationTable.bundled("digits")
    disjoint = contestant("lin-ucb-disjoint", digits, "logistic", 1000, FULL.grid)
    assert disjoint.fixed["context_dim"] == 65
    sgd_ts = contestant("sgd-ts", digits, "logistic", 1000, FULL.grid)
    assert {policy.tau(digits.dim) for policy in sgd_ts.settings()} == {50, 247, 500}  # type: ignore[attr-defined]
    assert settings_of(typical(sgd_ts))["block_factor"] == 0.77


def test_problems_can_be_built(tmp_path: Path) -> None:
    for name, problem in PROBLEMS.items():
        if name != "news":  # which writes files for some seconds
            environment = problem.build(tmp_path)
            assert problem.horizon(environment) == problem.most_rounds
            assert len(next(iter(environment.rounds(2, seed=1)))) == 2


def test_a_run_is_stopped_when_its_time_is_over() -> None:
    watched = _Watched(SIMULATION, limit=0.05)
    with pytest.raises(_OutOfTime):
        dawdle(watched)
    assert watched.played == 6  # three times two rounds
    assert watched.seconds == pytest.approx(0.06, abs=0.03)


def test_policies_are_compared_on_the_seeds_that_both_played() -> None:
    here = result()
    slow = here.players[2]
    assert slow.over(here.subject) == pytest.approx(0.8)  # 17.6 over 22, though its mean of two seeds is a third
    assert here.best is slow
    assert here.rank == 3
    assert here.relative(slow) == 1.0
    assert here.relative(here.subject) == pytest.approx(1.25)
    assert here.relative(here.players[1]) == pytest.approx(2.5)


def test_the_ratio_s_interval_is_paired_by_seed() -> None:
    players = (player(SUBJECT, [10.0, 20.0, 90.0]), player("greedy", [5.0, 10.0, 45.0]))
    here = ProblemResult("easy", "", 1000, 6, players, ())
    assert here.ratio == pytest.approx((2.0, 2.0, 2.0))  # twice as much on every seed, however unlike they are
    ratio, low, high = result().ratio
    assert low <= ratio <= high


def test_the_page_and_the_file_have_all_policies(tmp_path: Path) -> None:
    results = [result("one"), result("two")]
    page = markdown(results, FULL, LESS)
    assert "| one | in words | 1000 | 6 | `pg-ts` (exploration=1) | 8.80 +- 10.16 (2 seeds) | 26.5 +- 28.6 |" in page
    assert "Geometric mean of the ratio over 2 problems: 1.250" in page
    assert "| **`optimist`** | 1.25 | 1.25 (one) | 2 of 2 |" in page
    assert "| two | `lmc-ts` | over 4 s a run |" in page
    assert "rank 3 of 4" in console_table(results[0])
    write_csv(results, tmp_path / "regret.csv")
    with (tmp_path / "regret.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert {row["policy"] for row in rows} == {SUBJECT, "sgd-ts", "pg-ts", "greedy", "lmc-ts"}
    assert math.isclose(float(rows[1]["relative_to_best"]), 1.25 * (98 / 106), rel_tol=1e-5)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    draw([result("one"), result("two")], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"regret.png", "regret.svg"}


def test_unknown_problems_are_refused() -> None:
    from benchmarks.regret import report

    with pytest.raises(GlbanditsError, match="unknown problem 'iri'; did you mean 'iris'"):
        report(["iri"])
