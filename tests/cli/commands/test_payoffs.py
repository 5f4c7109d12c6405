"""`glb evaluate` and `glb tune` with --payoffs."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.in_process import glb

ROWS = 600
EVALUATE = ("evaluate", "log.csv", "--policy", "uniform", "--policy", "arm:dear price", "--policy", "arm:cheap")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two prices. The dear one sells less often, and earns more: 0.3 * 20 - 1 = 5 against 0.6 * 2 = 1.2."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(1)
    chosen = rng.integers(2, size=ROWS)
    table = {
        "arm": np.array(["cheap", "dear price"])[chosen],
        "reward": (rng.random(ROWS) < np.where(chosen == 1, 0.3, 0.6)).astype(int),
        "propensity": 0.5,
        "value_cheap": 2.0,
        "value_dear price": 20.0,
        "cost_cheap": 0.0,
        "cost_dear price": 1.0,
    }
    pl.DataFrame(table).write_csv(folder / "log.csv")
    (folder / "arms.csv").write_text("arm,value,cost\ncheap,2,0\ndear price,20,1\n", encoding="utf-8")
    return folder


def test_estimates_are_payoffs(folder: Path) -> None:
    by_file = glb(*EVALUATE, "--payoffs", "arms.csv", "--out", "file", folder=folder)
    assert by_file.returncode == 0, by_file.stderr
    assert "Mean payoff per decision" in by_file.stdout
    assert "mean reward" not in by_file.stdout
    assert "dear price (gain in payoff +" in by_file.stdout
    columns = "--payoffs", "value_{arm},cost_{arm}", "--payoff-range=-1,19", "--out", "columns"
    by_columns = glb(*EVALUATE, *columns, folder=folder)
    assert by_columns.returncode == 0, by_columns.stderr
    files = [folder / name / "evaluation.json" for name in ("file", "columns")]
    records = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert records[0]["unit"] == "payoff"
    assert records[0]["policies"] == records[1]["policies"]
    assert "payoff" in (folder / "file" / "evaluation.html").read_text(encoding="utf-8")
    assert 2.5 < records[0]["policies"][0]["logged"] < 3.7


@pytest.mark.parametrize(
    ("payoffs", "message"),
    [
        ("none.csv", "none.csv is not a file"),
        ("a,b,c", "columns of values and costs"),
        ("value_cheap", "struct with a number for each arm"),
        ("price_{arm}", "price_cheap"),
    ],
)
def test_invalid_payoffs_are_one_sentence(payoffs: str, message: str, folder: Path) -> None:
    run = glb(*EVALUATE, "--payoffs", payoffs, folder=folder)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


def test_payoffs_have_one_reward(folder: Path) -> None:
    run = glb(*EVALUATE, "--payoffs", "arms.csv", "--reward", "reward", "--reward", "propensity", folder=folder)
    assert run.returncode == 2
    assert "--payoffs needs one reward" in run.stderr


def test_tune_maximises_payoffs(folder: Path) -> None:
    words = ("--policy", "epsilon-greedy:exploration=10.0", "--grid", "exploration=0.1", "--seeds", "1")
    run = glb("tune", "log.csv", *words, "--payoffs", "arms.csv", "--out", "found", folder=folder)
    assert run.returncode == 0, run.stderr
    record = json.loads((folder / "found/tune.json").read_text(encoding="utf-8"))
    assert record["unit"] == "payoff"
    assert record["chosen"]["value"] > 2.5
    assert "Mean payoff per decision of epsilon-greedy" in run.stdout
