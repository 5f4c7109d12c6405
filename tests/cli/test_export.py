from functools import partial
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from glbandits.cli.app import app
from glbandits.serving.domain.events import Mode, Reward
from tests.cli.in_process import glb
from tests.serving.runtime.loops.loop_helpers import Clock, ask, play_rounds, small_loop


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with decisions that were learned."""
    loop, kept = small_loop(tmp_path, clock := Clock(), width=8)
    play_rounds(loop, kept, clock, 200)
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
    assert "(expected)" in run.stdout


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


def test_decisions_that_are_not_learned_are_there_if_they_are_asked_for(tmp_path: Path) -> None:
    """Those that waited in vain to be activated never are."""
    loop, kept = small_loop(tmp_path, clock := Clock(), width=8)
    for mode in Mode:
        loop.reconfigure(partial(replace, mode=mode))
        made = ask(loop, mode.value, "noon")
        told = Reward(loop="default", event_id=mode.value, timestamp=clock(), value=0.5)
        kept.append_blocking([made, told, ask(loop, f"deferred {mode}", "noon", deferred=True)])
    kept.close()
    for asked, there in [
        ([], ["Online", "Apprentice"]),
        (["LoggingOnly"], ["LoggingOnly"]),
        (["Online", "LoggingOnly"], ["Online", "LoggingOnly"]),
    ]:
        folder = tmp_path / f"log-{len(asked)}"
        options = [text for mode in asked for text in ("--mode", mode)]
        result = CliRunner().invoke(app, ["export", str(folder), "--store", str(tmp_path / "events.sqlite"), *options])
        assert result.exit_code == 0, result.output
        assert f"{len(there)} decisions in 1 files; {6 - len(there)} left out" in result.output
        table = pl.read_parquet(folder / "*.parquet")
        assert table["mode"].to_list() == table["event_id"].to_list() == there
        assert set(table["reward"]) == {0.5}
        assert all(row["arm"] == 0 and row["propensity"] == 1.0 for row in table.to_dicts() if row["mode"] != "Online")
