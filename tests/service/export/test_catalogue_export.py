"""Decisions from a catalogue as files, which the evaluation reads as a log of named arms."""

from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
from typer.testing import CliRunner

from glbandits.cli.app import app
from glbandits.evaluation import Columns, read_parquet
from glbandits.service.domain.catalogues.catalogue_records import CatalogueQuery, CatalogueRequest, NewArm
from glbandits.service.domain.events import DecisionRequest, Reward
from glbandits.service.domain.request_features import DENSE
from glbandits.service.export.catalogue_export import export_catalogue
from glbandits.service.export.loop_export import export_loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import Clock, small_loop

NAMES = ("tea", "cola", "milk")


def write_log(folder: Path) -> SqliteStore:
    """Ten decisions from a catalogue, of which the last five name a baseline, and one among actions."""
    clock = Clock()
    loop, store = small_loop(folder, clock, width=3, exploration=0.5)
    loop.catalogue.put(
        [NewArm(name, DENSE, row.tobytes()) for name, row in zip(NAMES, np.eye(3), strict=True)], max_arms=9
    )
    for number in range(10):
        query = CatalogueQuery(baseline="cola" if number >= 5 else None)
        decision = loop.decide_from_catalogue(CatalogueRequest(event_id=str(number), query=query))
        reward = Reward(loop="default", event_id=str(number), timestamp=clock(), value=number / 10)
        store.append_blocking([decision, reward])
    dense = DecisionRequest(event_id="dense", request=np.eye(3).tobytes(), encoding=DENSE, actions=NAMES)
    store.append_blocking([loop.decide(dense)])
    clock.wait(11)
    loop.learn()
    return store


def test_row_has_the_shown_arm_and_its_propensity(tmp_path: Path) -> None:
    with closing(write_log(tmp_path)) as store:
        written = export_catalogue(store, "default", tmp_path / "log")
        assert (written.rows, written.left_out) == (10, 1)
        frame = pl.read_parquet(tmp_path / "log" / "*.parquet")
        for row in frame.iter_rows(named=True):
            logged = store.decision("default", row["event_id"])
            assert logged is not None
            assert logged.decision.catalogue is not None
            assert (row["arm"], row["propensity"]) == (
                logged.decision.actions[logged.decision.shown],
                logged.decision.probability,
            )
            assert (row["catalogue"], row["arms"], row["reward"]) == (1, 3, int(row["event_id"]) / 10)
            assert row["features"] == np.eye(3)[NAMES.index(row["arm"])].tolist()
            assert row["baseline"] == ("cola" if int(row["event_id"]) >= 5 else None)
        assert frame["baseline_probability"].is_null().sum() == 5


def test_read_parquet_reads_named_arms(tmp_path: Path) -> None:
    with closing(write_log(tmp_path)) as store:
        export_catalogue(store, "default", tmp_path / "log")
    log = read_parquet(tmp_path / "log", Columns())
    assert set(log.arm_names or ()) <= set(NAMES)
    assert len(log) == 10


def test_other_exports_leave_catalogue_decisions_out(tmp_path: Path) -> None:
    with closing(write_log(tmp_path)) as store:
        written = export_loop(store, "default", tmp_path / "log")
    assert (written.rows, written.left_out) == (1, 10)


def test_command_exports_catalogue_decisions(tmp_path: Path) -> None:
    write_log(tmp_path).close()
    words = ["export", str(tmp_path / "log"), "--store", str(tmp_path / "events.sqlite"), "--catalogue"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "10 decisions in 1 file; 1 left out" in result.output
