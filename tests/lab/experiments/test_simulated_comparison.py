import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits import InvalidInput, Policy, SgdTs, Uniform
from glbandits.common.display.charts import save_chart
from glbandits.lab import TABLE_FORMATS, Synthetic, compare, results_table, write_results
from glbandits.policies.agents import PolicyLike
from tests.policies.example_agents import RidgeAgent, ScipyAgent

PROBLEM = Synthetic(dim=2, arms=4)
POLICIES: dict[str, Policy] = {"ours": SgdTs(block_length=5), "any": Uniform()}


def test_comparison_plays_all_policies_on_the_same_seeds() -> None:
    reports: list[tuple[str, int]] = []
    comparison = compare(POLICIES, PROBLEM, 50, iter([4, 9]), jobs=1, progress=lambda *report: reports.append(report))
    assert [result.seeds for result in comparison.values()] == [(4, 9), (4, 9)]
    assert reports == [("ours", 0), ("ours", 50), ("ours", 50), ("any", 0), ("any", 50), ("any", 50)]


def test_table_has_every_run_and_the_summary_its_settings(tmp_path: Path) -> None:
    comparison = compare(POLICIES, PROBLEM, 20, [4, 9])
    table = results_table(comparison)
    assert table.height == 2 * 2 * 20
    run = table.filter((pl.col("policy") == "ours") & (pl.col("seed") == 9))
    np.testing.assert_array_equal(run["regret"], comparison["ours"].regret[1])
    assert table.columns == ["policy", "seed", "round", "regret"]
    folder = tmp_path / "new" / "folder"
    for name in TABLE_FORMATS:
        assert write_results(comparison, folder, name, reference="any") == folder / f"regret.{name}"
    assert pl.read_parquet(folder / "regret.parquet").equals(table)
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["environment"], summary["horizon"], summary["seeds"]) == (repr(PROBLEM), 20, [4, 9])
    assert summary["policies"]["ours"]["settings"]["block_length"] == 5
    assert summary["policies"]["ours"]["regret"] == comparison["ours"].final_regret.mean()
    assert summary["policies"]["ours"]["difference"] == comparison.differences("any")["ours"]._asdict()
    assert "difference" not in summary["policies"]["any"]


def test_comparison_of_one_seed_and_names_with_spaces(tmp_path: Path) -> None:
    comparison = compare({"my policy <ü>": Uniform(), "a/b": Uniform()}, PROBLEM, 20, 1)
    write_results(comparison, tmp_path, "csv", reference="a/b")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["policies"]["my policy <ü>"]["standard_error"] is None
    assert summary["policies"]["my policy <ü>"]["difference"] == {"mean": 0.0, "half_width": None}
    assert "my policy <ü>" in (tmp_path / "regret.csv").read_text()


def test_comparison_without_policies_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="compare needs at least one policy; got none"):
        compare({}, PROBLEM, 20, 1)


def test_regret_figure_of_one_seed_and_many_policies(tmp_path: Path) -> None:
    many = {f"policy {i}": Uniform() for i in range(9)}
    for path in save_chart(compare(many, PROBLEM, 20, 1).plot("nine lines"), tmp_path, "regret"):
        assert path.stat().st_size > 1000


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
