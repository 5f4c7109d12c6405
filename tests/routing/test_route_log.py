"""The log of a router: every decision once, also with threads, and if it cannot be written."""

from pathlib import Path
from threading import Thread

import polars as pl
import pytest

from tests.routing.routers import play, router

pytestmark = pytest.mark.usefixtures("plain_python")


def test_log_has_every_decision_once_with_its_feedback(tmp_path: Path) -> None:
    trained = router(0.3, log=tmp_path / "log", memory=20)
    routes = play(trained, 1500)
    open_events = [trained.route([0.0, 0.0]).event_id for _ in range(30)]
    trained.feedback(open_events[-1], cost=0.2)
    trained.write_log()
    assert len(list((tmp_path / "log").iterdir())) >= 2
    log = pl.read_parquet(tmp_path / "log" / "*.parquet")
    assert sorted(log["event_id"]) == sorted([*(route.event_id for route in routes), *open_events])
    rows = {row["event_id"]: row for row in log.iter_rows(named=True)}
    for route in routes:
        row = rows[route.event_id]
        assert row["probability"] == route.probability == row["probabilities"][row["models"].index(route.model)]
        assert sum(row["probabilities"]) == pytest.approx(1.0)
        assert row["quality"] is not None
        assert row["cost"] is not None
        assert len(row["features"]) == 3
    assert rows[open_events[-1]]["cost"] == 0.2
    assert rows[open_events[-1]]["quality"] is None


def test_threads_share_a_router(tmp_path: Path) -> None:
    shared = router(0.3, log=tmp_path)
    threads = [Thread(target=play, args=(shared, 100, seed)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.write_log()
    assert len(pl.read_parquet(tmp_path / "*.parquet")) == 800


def test_no_row_is_lost_while_the_clock_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 5)
    trained = router(log=tmp_path)
    for _ in range(3):
        play(trained, 10)
        trained.write_log()
    assert len(pl.read_parquet(tmp_path / "*.parquet")) == 30


def test_routing_goes_on_while_the_log_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("glbandits.routing.route_log.PART", 10)
    monkeypatch.setattr("glbandits.routing.route_log.KEPT", 30)
    folder = tmp_path / "log"
    trained = router(log=folder)
    folder.rmdir()
    folder.write_text("not a folder")
    play(trained, 55)
    assert caplog.text.count("The log of the router could not be written") == 5
    with pytest.raises(OSError, match="log"):
        trained.write_log()
    folder.unlink()
    play(trained, 5)
    assert len(pl.read_parquet(folder / "*.parquet")) == 40  # the oldest 20 of 60 are lost
