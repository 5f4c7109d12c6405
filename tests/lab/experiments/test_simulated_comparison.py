import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput, Policy, SgdTs, Uniform
from glbandits.lab import Noise, ResultStore, Rounds, Synthetic, compare, results_table, simulate
from glbandits.lab.experiments import write_results
from glbandits.policies.agents import PolicyLike
from tests.policies.example_agents import RidgeAgent, ScipyAgent

PROBLEM = Synthetic(dim=2, arms=4)
POLICIES: dict[str, Policy] = {"ours": SgdTs(block_length=5), "any": Uniform()}


@dataclass(frozen=True)
class Counted:
    """A problem that writes down the seed of each run whose rounds it generates."""

    seeds: list[int] = field(default_factory=list)
    dim: int = PROBLEM.dim
    noise: Noise = PROBLEM.noise

    def rounds(self, horizon: int, seed: int) -> Iterator[Rounds]:
        self.seeds.append(seed)
        return PROBLEM.rounds(horizon, seed)


def test_comparison_plays_all_policies_on_the_same_seeds() -> None:
    reports: list[tuple[str, float, float]] = []
    comparison = compare(POLICIES, PROBLEM, 50, iter([4, 9]), jobs=1, progress=lambda *report: reports.append(report))
    assert [result.seeds for result in comparison.values()] == [(4, 9), (4, 9)]
    assert reports == [("playing", done, 200) for done in (0, 50, 100, 150, 200)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_rounds_of_a_seed_are_generated_once_for_all_policies(jobs: int) -> None:
    problem = Counted()
    comparison = compare({**POLICIES, "mine": "sgd-ts:block_length=7"}, problem, 50, [4, 9], jobs=jobs)
    assert sorted(problem.seeds) == [4, 4, 4, 9]  # the first two check that rounds repeat
    for label, policy in POLICIES.items():
        alone = simulate(policy, PROBLEM, 50, [4, 9], jobs=1)
        np.testing.assert_array_equal(comparison[label].regret, alone.regret)


def test_comparison_with_a_store_has_the_same_bits_and_plays_nothing_twice(tmp_path: Path) -> None:
    policies: dict[str, PolicyLike] = {**POLICIES, "agent": RidgeAgent}
    plain = compare(policies, PROBLEM, 300, [4, 9], jobs=1)
    stored = compare(policies, PROBLEM, 300, [4, 9], jobs=1, store=ResultStore(tmp_path))
    files = set(tmp_path.glob("*.parquet"))
    again = compare(policies, PROBLEM, 300, [4, 9], jobs=1, store=ResultStore(tmp_path))
    assert set(tmp_path.glob("*.parquet")) == files
    more = compare(policies, PROBLEM, 300, [9, 5], jobs=1, store=ResultStore(tmp_path))
    for label, result in plain.items():
        for other in (stored, again):
            np.testing.assert_array_equal(result.regret, other[label].regret)
            np.testing.assert_array_equal(result.rounds, other[label].rounds)
            assert (result.seeds, result.policy.name) == (other[label].seeds, other[label].policy.name)
        np.testing.assert_array_equal(result.regret[1], more[label].regret[0])
        np.testing.assert_array_equal(stored[label].seconds, again[label].seconds)


def test_table_has_every_run_and_the_summary_its_settings(tmp_path: Path) -> None:
    comparison = compare(POLICIES, PROBLEM, 20, [4, 9])
    table = results_table(comparison).collect()
    assert table.height == 2 * 2 * 20
    run = table.filter((pl.col("policy") == "ours") & (pl.col("seed") == 9))
    np.testing.assert_array_equal(run["regret"], comparison["ours"].regret[1])
    assert table.columns == ["policy", "seed", "round", "regret"]
    folder = tmp_path / "new" / "folder"
    assert write_results(comparison, folder, reference="any") == folder / "regret.parquet"
    assert pl.read_parquet(folder / "regret.parquet").equals(table)
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["environment"], summary["horizon"], summary["seeds"]) == (repr(PROBLEM), 20, [4, 9])
    assert summary["policies"]["ours"]["settings"]["block_length"] == 5
    assert summary["policies"]["ours"]["regret"] == comparison["ours"].final_regret.mean()
    assert summary["policies"]["ours"]["difference"] == comparison.differences("any")["ours"]._asdict()
    assert "difference" not in summary["policies"]["any"]


MANY_RUNS = """
import numpy as np
from pathlib import Path
from glbandits import Uniform
from glbandits.lab import Synthetic, recorded_rounds
from glbandits.lab.simulation import Simulation
from glbandits.lab.experiments import SimulatedComparison, write_results

rounds, seeds = recorded_rounds(1000, 200), tuple(range(10_000))
comparison = SimulatedComparison()
for policy in range(26):
    regret = np.random.default_rng(policy).random((10_000, 200))
    comparison[f"policy {policy}"] = Simulation(
        Uniform(), Synthetic(), 1000, seeds, rounds, regret, None, np.ones(10_000)
    )
write_results(comparison, Path("out"))
# Not `ru_maxrss`, which counts the memory of the process that started this one.
(peak,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(peak)
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_table_of_many_runs_stays_within_1_gb(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MANY_RUNS], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1_000_000  # kB
    table = pl.scan_parquet(tmp_path / "out/regret.parquet")
    assert table.select(pl.len()).collect().item() == 26 * 10_000 * 200


def test_policies_without_labels_have_their_names() -> None:
    listed: list[PolicyLike] = ["uniform", "sgd-ts:block_length=5", Uniform(), RidgeAgent, ScipyAgent]
    with pytest.raises(InvalidInput, match=r"different names; got uniform, .*, uniform.* Pass a dict"):
        compare(listed, PROBLEM, 20, 2, jobs=1)
    del listed[0]
    comparison = compare(listed, PROBLEM, 20, 2, jobs=1)
    assert list(comparison) == ["sgd-ts:block_length=5", "uniform", "RidgeAgent", "map-scipy"]
    by_label = compare({"one": Uniform(), "other": RidgeAgent}, PROBLEM, 20, 2, jobs=1)
    np.testing.assert_array_equal(comparison["uniform"].regret, by_label["one"].regret)
    np.testing.assert_array_equal(comparison["RidgeAgent"].regret, by_label["other"].regret)


@pytest.mark.parametrize("wrong", ["uniform", Uniform(), RidgeAgent, None, {Uniform()}])
def test_what_is_no_list_of_policies_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="policies must be a list of policies, or a dict of them by label; got"):
        compare(wrong, PROBLEM, 20, 2)
