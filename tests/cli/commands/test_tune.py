"""`glb tune`: the table, the JSON file, and the same numbers as `tune` in Python."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from glbandits import Bandit, EpsilonGreedy, SgdTs
from glbandits.evaluation import Columns, read_parquet, tune
from glbandits.evaluation.learning.learning_curve import Learn
from tests.cli.in_process import glb

ROWS = 1200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log of two arms, of which the second earns more."""
    rng = np.random.default_rng(1)
    chosen = rng.integers(2, size=ROWS)
    rewards = (rng.random(ROWS) < np.where(chosen == 1, 0.6, 0.4)).astype(int)
    columns = {"item": np.array(["old", "new"])[chosen], "reward": rewards, "propensity": 0.5}
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    return tmp_path


def test_table_and_record_have_the_result_of_tune(folder: Path) -> None:
    words = ("--arm", "item", "--link", "logistic", "--policy", "epsilon-greedy:exploration=10.0", "--jobs", "2")
    run = glb("tune", "log.parquet", *words, "--grid", "exploration=0.1,1.0", "--out", "found", folder=folder)
    assert run.returncode == 0, run.stderr
    log = read_parquet(folder / "log.parquet", Columns(arm="item"), link="logistic")
    policy = EpsilonGreedy(link="logistic", exploration=10.0, fit="online")
    assert "Note: on a log, epsilon-greedy learns with fit=online" in run.stdout
    expected = tune(policy, log, grid={"exploration": (0.1, 1.0)})
    record = json.loads((folder / "found/tune.json").read_text(encoding="utf-8"))
    assert record["rows"] == [600, 600]
    assert [played["settings"] for played in record["candidates"]] == [
        {"exploration": value} for value in (10.0, 0.1, 1.0)
    ]
    assert [played["value"] for played in record["candidates"]] == pytest.approx(
        [played.value for played in expected.candidates]
    )
    assert record["chosen"]["settings"] == {"exploration": expected.best.exploration}  # type: ignore[union-attr]
    assert [record["gain"], *record["gain_interval"]] == pytest.approx([expected.gain, *expected.gain_interval()])
    assert re.search(rf"\n *1 +exploration=10.0, default +{expected.candidates[0].value:.5f}", run.stdout)
    assert f"{expected.gain:+.5f}" in run.stdout


def test_verdict_and_next_command_follow_the_rows_that_did_not_choose(folder: Path) -> None:
    words = ("--arm", "item", "--link", "logistic", "--policy", "epsilon-greedy:exploration=30.0")
    run = glb("tune", "log.parquet", *words, "--grid", "exploration=0.1,20.0", folder=folder)
    assert run.returncode == 0, run.stderr
    record = json.loads((folder / "out/tune/tune.json").read_text(encoding="utf-8"))["verdict"]
    assert record["kind"] == "better"
    assert record["next"].startswith("glb train log.parquet --arm item --link logistic --policy epsilon-greedy:")
    assert run.stdout.splitlines()[-2:] == [f"Verdict: {record['sentence']}", f"Next: {record['next']}"]
    assert record["sentence"] in (folder / "out/tune/tune.html").read_text(encoding="utf-8")
    trained = glb(*shlex.split(record["next"])[1:], folder=folder)
    assert trained.returncode == 0, trained.stderr
    policy = Bandit.load(folder / "model.safetensors").policy
    assert isinstance(policy, EpsilonGreedy)
    assert policy.exploration in (0.1, 20.0)


def test_default_is_kept_if_the_best_cannot_be_distinguished(folder: Path) -> None:
    words = ("--arm", "item", "--link", "logistic", "--policy", "epsilon-greedy:exploration=0.3")
    run = glb("tune", "log.parquet", *words, "--grid", "exploration=0.2,0.4", folder=folder)
    record = json.loads((folder / "out/tune/tune.json").read_text(encoding="utf-8"))["verdict"]
    assert record["kind"] == "keep the default", run.stderr
    assert record["next"].endswith("--policy epsilon-greedy:exploration=0.3")


@pytest.mark.parametrize(("learn", "horizon"), [("matched", 100), ("all", 200)])
def test_horizon_is_the_number_of_learned_rows(folder: Path, learn: Learn, horizon: int) -> None:
    pl.read_parquet(folder / "log.parquet").head(400).write_parquet(folder / "log.parquet")
    words = ("--arm", "item", "--link", "logistic", "--policy", "sgd-ts", "--grid", "step=0.5,1.0", "--seeds", "1")
    run = glb("tune", "log.parquet", *words, "--learn", learn, "--out", "found", folder=folder)
    assert run.returncode == 0, run.stderr
    log = read_parquet(folder / "log.parquet", Columns(arm="item"), link="logistic")
    policy = SgdTs(link="logistic", horizon=horizon)
    expected = tune(policy, log, grid={"step": (0.5, 1.0)}, seeds=1, learn=learn)
    record = json.loads((folder / "found/tune.json").read_text(encoding="utf-8"))
    assert [played["value"] for played in record["candidates"]] == [played.value for played in expected.candidates]


def test_interleaved_clusters_are_tuned_on(folder: Path) -> None:
    table = pl.read_parquet(folder / "log.parquet").with_columns(user=pl.int_range(ROWS) % 50)
    table.write_parquet(folder / "log.parquet")
    words = ("--arm", "item", "--policy", "optimist:link=logistic", "--grid", "floor=0.0,0.2", "--cluster", "user")
    run = glb("tune", "log.parquet", *words, "--link", "logistic", "--seeds", "1", folder=folder)
    assert run.returncode == 0, run.stderr
    assert sum(json.loads((folder / "out/tune/tune.json").read_text(encoding="utf-8"))["rows"]) == ROWS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "optimist has no grid of settings"),
        (("--grid", "flor=0.1"), "unknown setting of optimist 'flor'; did you mean 'floor'"),
        (("--grid", "floor=0.1", "--out", "log.parquet/x"), "--out needs a writable folder; got log.parquet"),
    ],
)
def test_invalid_grid_is_an_error(folder: Path, options: tuple[str, ...], message: str) -> None:
    run = glb("tune", "log.parquet", "--arm", "item", "--link", "logistic", *options, folder=folder)
    assert run.returncode == 2
    assert message in run.stderr


def test_warning_about_few_rows_is_printed_and_recorded(folder: Path) -> None:
    pl.read_parquet(folder / "log.parquet")[:100].write_parquet(folder / "log.parquet")
    words = ("--arm", "item", "--link", "logistic", "--grid", "floor=0.1")
    run = glb("tune", "log.parquet", *words, folder=folder)
    assert run.returncode == 0, run.stderr
    assert "Warning: the effective sample size of optimist is only" in run.stdout
    assert (
        "effective sample size" in json.loads((folder / "out/tune/tune.json").read_text(encoding="utf-8"))["notes"][0]
    )
