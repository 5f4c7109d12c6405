import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.in_process import glb
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log whose columns have other names, and rewards that are missing."""
    table = {
        "offer": ["hat", "shoe", "Hat"] * 100,
        "sold": [0, 1, None] * 100,
        "p": [0.5] * 300,
        "rate": ["5,5 %", "7 %"] * 150,
    }
    pl.DataFrame(table).write_csv(tmp_path / "log.csv")
    return tmp_path


def test_next_command_has_the_options_that_the_log_needs(folder: Path) -> None:
    run = glb("describe", "log.csv", "--arm", "offer", "--reward", "sold", "--propensity", "p", folder=folder)
    assert run.returncode == 0, run.stderr
    assert "the reward is missing in 100 of 300 rows" in run.stdout
    assert "'hat' (100 rows)" in run.stdout
    command = "glb evaluate log.csv --arm offer --reward sold --propensity p --link logistic --context rate"
    assert f"{command} --kind rate=number" in run.stdout
    assert "rate=number" in (folder / "out/describe/description.html").read_text()


def test_out_must_be_a_writable_folder(folder: Path) -> None:
    run = glb("describe", "log.csv", "--arm", "offer", "--reward", "sold", "--out", "log.csv", folder=folder)
    assert "--out needs a writable folder" in run.stderr


def test_suggested_command_runs_after_the_corrections(folder: Path) -> None:
    pl.read_csv(folder / "log.csv").filter(pl.col("offer") != "Hat").drop_nulls().write_csv(folder / "log.csv")
    run = glb("describe", "log.csv", "--arm", "offer", "--reward", "sold", "--propensity", "p", folder=folder)
    [line] = [line for line in run.stdout.splitlines() if line.startswith("Next: ")]
    run = glb(*shlex.split(line.removeprefix("Next: glb ")), "--policy", "uniform", folder=folder)
    assert run.returncode == 0, run.stderr


def test_next_command_has_no_refused_column_and_one_kind_of_each(folder: Path) -> None:
    large = pl.Series("large", [1e308, 1.0, -1e308] * 100)
    pl.read_csv(folder / "log.csv").with_columns(large).write_csv(folder / "log.csv")
    words = ("log.csv", "--arm", "offer", "--reward", "sold", "--propensity", "p")
    for context, kinds in [((), ()), (("--context", "large,rate"), ("--kind", "rate=date", "--kind", "large=number"))]:
        run = glb("describe", *words, *context, *kinds, folder=folder)
        [line] = [line for line in run.stdout.splitlines() if line.startswith("Next, after the corrections: ")]
        assert "--context rate " in line
        assert line.count("--kind") == 1
        assert "rate=number" in line
        assert "Note: the next command leaves out these columns: 'large'" in run.stdout


def test_wrong_column_asks_for_its_name(folder: Path) -> None:
    run = glb("describe", "log.csv", "--reward", "sold", folder=folder)
    assert "glb describe log.csv --arm COLUMN --reward sold" in run.stdout
    assert "offer" in run.stdout


def test_probabilities_that_do_not_fit_are_a_problem(folder: Path) -> None:
    table = {"arm": ["a", "b"] * 60, "reward": [0, 1] * 60, "p_a": [0.5] * 120, "p_b": [0.9] * 120}
    pl.DataFrame(table).write_csv(folder / "wrong.csv")
    run = glb("describe", "wrong.csv", "--propensity", "p_{arm}", folder=folder)
    assert "Cannot be evaluated: column 'p_{arm}', row 0: the probabilities must sum to 1" in run.stdout


def test_file_that_is_not_there_is_an_error(folder: Path) -> None:
    assert glb("describe", "none.csv", folder=folder).returncode == 2


def test_export_and_store_of_a_service_are_described(tmp_path: Path) -> None:
    loop, event_store = small_loop(tmp_path, clock := Clock(), width=8)
    play_rounds(loop, event_store, clock, 200)
    event_store.close()
    glb("store", "export", "log", "--store", "events.sqlite", folder=tmp_path)
    for source in ("log", "events.sqlite"):
        run = glb("describe", source, folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert f"Next: glb evaluate {source}\n" in run.stdout
        assert "200" in run.stdout


def test_leaked_column_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 3, 1500)
    reward = (rng.random(1500) < np.array([0.1, 0.4, 0.2])[arm]).astype(int)
    columns = {"arm": np.array(["a", "b", "c"])[arm], "reward": reward, "propensity": np.full(1500, 1 / 3)}
    columns |= {"age": rng.normal(size=1500), "status": np.where(reward == 1, "paid", "open")}
    pl.DataFrame(columns).write_csv(tmp_path / "log.csv")
    run = glb("describe", "log.csv", folder=tmp_path)
    assert "column 'status': was it known before the decision?" in run.stdout
    assert "column 'age'" not in run.stdout
