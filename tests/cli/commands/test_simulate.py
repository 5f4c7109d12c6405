import json
import re
from pathlib import Path

import polars as pl
import pytest

from glbandits.lab import Synthetic, simulate
from tests.cli.in_process import glb


def test_simulate_prints_a_table_and_writes_figure_and_results(tmp_path: Path) -> None:
    run = glb(
        "simulate", "--policy", "sgd-ts:block_length=20,step=0.5", "--policy", "uniform", "--horizon", "120",
        "--seeds", "3", "--environment", "synthetic:dim=3,arms=5", "--out", "results", folder=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert re.search(r"uniform\s+\d+\.\d+\s+\d+\.\d+", run.stdout)
    assert "Figure: results/regret.png" in run.stdout
    assert (tmp_path / "results/regret.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "results/regret.svg").read_text()
    table = pl.read_parquet(tmp_path / "results/regret.parquet")
    assert table.height == 2 * 3 * 120
    assert set(table["policy"]) == {"sgd-ts:block_length=20,step=0.5", "uniform"}
    assert table.columns == ["policy", "seed", "round", "regret"]
    assert table.null_count().sum_horizontal().item() == 0
    assert (tmp_path / "results/regret.pdf").read_bytes().startswith(b"%PDF")
    own = json.loads((tmp_path / "results/summary.json").read_text())["policies"]["sgd-ts:block_length=20,step=0.5"]
    assert (own["settings"]["step"], own["settings"]["horizon"]) == (0.5, 120)


def test_environment_has_settings_as_policies_do(tmp_path: Path) -> None:
    options = ("--policy", "uniform", "--horizon", "30", "--seeds", "2")
    environment = "synthetic:dim=4,arms=5,link=log,fixed_arms=true"
    assert glb("simulate", *options, "--environment", environment, folder=tmp_path).returncode == 0
    problem = Synthetic(dim=4, arms=5, link="log", fixed_arms=True)
    expected = simulate("uniform", problem, 30, 2).regret[:, -1]
    found = pl.read_parquet(tmp_path / "out/simulate/regret.parquet").filter(pl.col("round") == 30)["regret"]
    assert found.to_list() == pytest.approx(expected.tolist())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("simulate", "--policy", "sgd-st"), "unknown policy 'sgd-st'; did you mean 'sgd-ts'"),
        (("simulate", "--policy", "sgd-ts:step=-1"), "step must be a finite number above 0; got -1"),
        (("simulate", "--environment", "synthetic:arm=5"), "unknown name in --environment synthetic:arm=5 'arm'; did"),
        (("simulate", "--policy", "uniform", "--policy", "uniform"), "each policy can be named once"),
        (("simulate", "--horizon", "0"), "Option: --horizon"),
        (("simulate", "--environment", "synthetic:dim=0"), "Option: --environment ENVIRONMENT"),
        (("simulat",), "simulate"),
    ],
)
def test_error_names_the_option_and_the_closest_value(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    run = glb(*words, folder=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_theory_setting_is_a_dict(tmp_path: Path) -> None:
    theory = "{'noise': 0.1, 'c1': 1.0, 'c3': 0.1, 'sigma_0': 1.0, 'lambda_f': 1.0, 'horizon': 100}"
    words = (
        "--policy",
        f"sgd-ts:theory={theory}",
        "--horizon",
        "20",
        "--seeds",
        "1",
        "--environment",
        "synthetic:dim=2,arms=2",
    )
    run = glb("simulate", *words, folder=tmp_path)
    assert run.returncode == 0, run.stderr


def test_reference_adds_paired_differences_to_the_table(tmp_path: Path) -> None:
    policies = ("--policy", "uniform", "--policy", "epsilon-greedy")
    run = glb("simulate", *policies, "--reference", "uniform", "--horizon", "50", "--seeds", "4", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "minus uniform ± 95" in run.stdout
    assert re.search(r"uniform .* the reference", run.stdout)
    assert re.search(r"epsilon-greedy .* [+-]\d+\.\d+ ± \d+\.\d+: (better|worse|no difference shown)", run.stdout)
    assert "hold at once with 95 %" in run.stdout
    summary = json.loads((tmp_path / "out/simulate/summary.json").read_text())
    assert summary["reference"] == "uniform"
    assert summary["policies"]["epsilon-greedy"]["difference"].keys() == {"mean", "half_width"}
