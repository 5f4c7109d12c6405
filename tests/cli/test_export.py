from pathlib import Path

import polars as pl
import pytest

from tests.cli.test_evaluate import glb
from tests.serving.worlds import Clock, live, small_loop


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with decisions that were learned."""
    loop, kept = small_loop(tmp_path, clock := Clock(), width=8)
    live(loop, kept, clock, 200)
    kept.close()
    return tmp_path / "events.sqlite"


def test_a_log_is_exported_and_evaluated(store: Path) -> None:
    run = glb("export", "log", "--store", store.name, folder=store.parent)
    assert run.returncode == 0, run.stderr
    assert "log: 200 decisions in 1 files; 0 left out" in run.stdout
    table = pl.read_parquet(store.parent / "log/*.parquet")
    assert table["reward"].mean() == pytest.approx(float(table.select((pl.col("reward") > 0).mean()).item()), abs=1e-12)
    run = glb("evaluate", "log", "--features", "features", "--policy", "uniform", folder=store.parent)
    assert run.returncode == 0, run.stderr
    assert "worth" in run.stdout


def test_a_store_is_evaluated_as_it_is(store: Path) -> None:
    run = glb("evaluate", store.name, "--policy", "uniform", "--estimator", "ips", folder=store.parent)
    assert run.returncode == 0, run.stderr
    assert "uniform: evaluated on all 200 rows" in run.stdout
    run = glb("evaluate", store.name, "--loop", "other", folder=store.parent)
    assert run.returncode != 0
    assert "no decision of loop 'other'" in run.stderr


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    run = glb("export", "log", "--store", "none.sqlite", folder=tmp_path)
    assert run.returncode != 0
    assert "there is no store none.sqlite" in run.stderr
    assert not list(tmp_path.iterdir())
