"""`glb evaluate --promote-if-better`: the verdict in the output, the record, the page and the exit code."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, Optimist
from glbandits.evaluation import Columns, promotion, read_parquet
from tests.cli.in_process import Run, glb
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop

ROWS = 4200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log of two arms, of which the second earns more."""
    rng = np.random.default_rng(2)
    chosen = rng.integers(0, 2, ROWS)
    clicks = (rng.random(ROWS) < np.where(chosen == 1, 0.7, 0.3)).astype(int)
    columns = {"arm": np.array(["old", "new"])[chosen], "reward": clicks, "p_old": 0.5, "p_new": 0.5}
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    return tmp_path


def gate(folder: Path, *options: str, log: str = "log.parquet") -> Run:
    words = ("--propensity", "p_{arm}", "--link", "logistic", "--estimator", "ips", "--promote-if-better")
    return glb("evaluate", log, *words, *options, folder=folder)


@pytest.mark.parametrize(
    ("options", "verdict", "code"),
    [
        (("--policy", "arm:new", "--policy", "arm:old"), "Promote arm:new: it is better than the running policy.", 0),
        (("--policy", "arm:old"), "Keep the running policy: no candidate is better by more than 0.", 10),
        (("--policy", "uniform"), "Wait: the log does not have enough evidence yet", 11),
        (("--policy", "arm:new", "--exploration", "1"), "Wait: the log does not have enough evidence yet", 11),
        (("--policy", "uniform", "--margin", "0.1"), "no candidate is better by more than 0.1.", 10),
    ],
)
def test_verdict_is_printed_and_is_the_exit_code(
    folder: Path, options: tuple[str, ...], verdict: str, code: int
) -> None:
    run = gate(folder, *options)
    assert run.returncode == code, run.stderr
    assert verdict in run.stdout
    assert "Gain over the running policy, from row 1 on\n" in run.stdout


def test_record_and_page_contain_the_verdict(folder: Path) -> None:
    Bandit(Optimist(link="logistic"), dim=2, seed=1).save(folder / "new.safetensors")
    run = gate(folder, "--policy", "arm:new", "--model", "new.safetensors", "--level", "0.99")
    assert run.returncode == 0, run.stderr
    record = json.loads((folder / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))
    assert record["settings"]["gate"] == {"alpha": 0.01, "margin": 0.0}
    log = read_parquet(folder / "log.parquet", Columns(probabilities="p_{arm}"), link="logistic")
    model = Bandit.load(folder / "new.safetensors")
    expected = promotion(log, {"arm:new": "new", "new.safetensors": model}, alpha=0.01)
    assert record["promotion"]["verdict"] == "promote"
    assert record["promotion"]["candidate"] == "arm:new"
    assert record["promotion"]["rows_needed"] is None
    for name, gain in record["promotion"]["gains"].items():
        assert (gain["value"], gain["low"], gain["high"]) == pytest.approx(
            (expected.gains[name].value, *expected.gains[name].interval)
        )
    page = (folder / "out/evaluate/evaluation.html").read_text(encoding="utf-8")
    assert "Promote arm:new: it is better than the running policy." in page
    assert '<a href="#gate">' in page


def test_no_gate_without_the_option(folder: Path) -> None:
    words = ("--propensity", "p_{arm}", "--link", "logistic", "--policy", "arm:old", "--estimator", "ips")
    run = glb("evaluate", "log.parquet", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert json.loads((folder / "out/evaluate/evaluation.json").read_text(encoding="utf-8"))["promotion"] is None
    assert 'id="gate"' not in (folder / "out/evaluate/evaluation.html").read_text(encoding="utf-8")


def test_gate_needs_bounded_rewards(folder: Path) -> None:
    run = glb(
        "evaluate",
        "log.parquet",
        "--propensity",
        "p_{arm}",
        "--link",
        "identity",
        "--promote-if-better",
        folder=folder,
    )
    assert run.returncode == 2
    assert "the gate needs rewards with bounds" in run.stderr
    run = gate(folder, "--reward-range", "0,0.5")
    assert run.returncode == 2
    assert "Set a wider reward_range" in run.stderr


def test_store_of_a_service_is_a_log_for_the_gate(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=8)
    play_rounds(loop, store, clock, 200)
    store.close()
    words = ("--loop", "default", "--policy", "uniform", "--reward-range", "0,1", "--promote-if-better")
    run = glb("evaluate", "events.sqlite", *words, folder=tmp_path)
    assert run.returncode == 10, run.stderr
    assert "Keep the running policy: no candidate is better by more than 0." in run.stdout
