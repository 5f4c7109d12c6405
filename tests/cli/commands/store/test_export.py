import gc
import tempfile
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from glbandits import UnknownName
from glbandits.cli.app import app
from glbandits.evaluation import Columns
from glbandits.service.domain.events import Mode, Reward
from glbandits.service.export.log_source import open_log_or_store
from glbandits.service.runtime.service import microseconds
from tests.cli.in_process import glb
from tests.service.runtime.loops.loop_helpers import Clock, ask, play_rounds, small_loop


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with decisions that were learned."""
    loop, event_store = small_loop(tmp_path, clock := Clock(), width=8)
    play_rounds(loop, event_store, clock, 200)
    event_store.close()
    return tmp_path / "events.sqlite"


def test_exported_log_is_evaluated(store: Path) -> None:
    run = glb("store", "export", "log", "--store", store.name, folder=store.parent)
    assert run.returncode == 0, run.stderr
    assert "log: 200 decisions in 1 file; 0 left out, 0 still open\nEvaluate" in run.stdout
    table = pl.read_parquet(store.parent / "log/*.parquet")
    assert table["reward"].mean() == pytest.approx(float(table.select((pl.col("reward") > 0).mean()).item()), abs=1e-12)
    run = glb("evaluate", "log", "--features", "features", "--policy", "uniform", folder=store.parent)
    assert run.returncode == 0, run.stderr
    assert "(expected)" in run.stdout


def test_export_says_how_many_decisions_are_open(tmp_path: Path) -> None:
    (clock := Clock()).now = microseconds()
    loop, event_store = small_loop(tmp_path, clock, width=8, reward_wait=3600.0)
    event_store.append_blocking([ask(loop, f"open {index}", "noon") for index in range(3)])
    event_store.close()
    run = glb("store", "export", "log", "--store", "events.sqlite", folder=tmp_path)
    assert "log: 0 decisions in 0 files; 0 left out, 3 still open\nOpen decisions wait for their rewards." in run.stdout


def test_store_is_evaluated_directly(store: Path) -> None:
    run = glb("evaluate", store.name, "--policy", "uniform", "--estimator", "ips", folder=store.parent)
    assert run.returncode == 0, run.stderr
    assert "uniform: evaluated on all 200 rows" in run.stdout
    run = glb("evaluate", store.name, "--loop", "other", folder=store.parent)
    assert run.returncode != 0
    assert "unknown loop 'other'" in run.stderr


def test_export_of_a_store_is_removed_with_its_log(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    log = open_log_or_store(str(store), Columns())
    rows = log.blocks()
    assert len(list(temporary.iterdir())) == 1
    del log
    gc.collect()
    assert sum(map(len, rows)) == 200, "rows that are being read keep the export"
    del rows
    gc.collect()
    with pytest.raises(UnknownName, match="unknown loop 'other'"):
        open_log_or_store(str(store), Columns(), loop="other")
    assert not list(temporary.iterdir())


def test_missing_store_is_not_created(tmp_path: Path) -> None:
    run = glb("store", "export", "log", "--store", "none.sqlite", folder=tmp_path)
    assert run.returncode != 0
    assert "there is no store none.sqlite" in run.stderr
    assert not list(tmp_path.iterdir())


def test_mode_option_selects_decisions(tmp_path: Path) -> None:
    """Deferred decisions that were never activated are left out in every mode."""
    loop, event_store = small_loop(tmp_path, clock := Clock(), width=8)
    for mode in Mode:
        loop.reconfigure(partial(replace, mode=mode))
        decision = ask(loop, mode.value, "noon")
        reward = Reward(loop="default", event_id=mode.value, timestamp=clock(), value=0.5)
        event_store.append_blocking([decision, reward, ask(loop, f"deferred {mode}", "noon", deferred=True)])
    event_store.close()
    for modes, expected in [
        ([], ["Online", "Apprentice"]),
        (["LoggingOnly"], ["LoggingOnly"]),
        (["Online", "LoggingOnly"], ["Online", "LoggingOnly"]),
    ]:
        folder = tmp_path / f"log-{len(modes)}"
        options = [text for mode in modes for text in ("--mode", mode)]
        result = CliRunner().invoke(
            app, ["store", "export", str(folder), "--store", str(tmp_path / "events.sqlite"), *options]
        )
        assert result.exit_code == 0, result.output
        assert f"{len(expected)} decisions in 1 file; {6 - len(expected)} left out" in result.output
        table = pl.read_parquet(folder / "*.parquet")
        assert table["mode"].to_list() == table["event_id"].to_list() == expected
        assert set(table["reward"]) == {0.5}
        assert all(row["arm"] == 0 and row["propensity"] == 1.0 for row in table.to_dicts() if row["mode"] != "Online")
