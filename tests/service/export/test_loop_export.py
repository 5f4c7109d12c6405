import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from glbandits.common.errors import InvalidInput, MissingExtra
from glbandits.evaluation import Columns, read_parquet
from glbandits.service.domain.events import Aggregation, Decision, Mode
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.export import loop_export
from glbandits.service.export.loop_export import export_loop
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import WAIT, decision, reward


def dense(event_id: str, timestamp: int, actions: tuple[str, ...] = ("a", "b", "c"), **changed: Any) -> Decision:
    """A decision with three numbers for each action, computed from the id of the event."""
    features = np.arange(3.0 * len(actions)) + int(event_id)
    return decision(event_id, timestamp, actions=actions, request=features.tobytes(), encoding=DENSE, **changed)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr(loop_export, "microseconds", lambda: 2 * WAIT)
    store = SqliteStore(tmp_path / "events.db")
    for name in ("shop", "slots"):
        Loop(name, store, lambda: 0, first_configuration=LoopConfig(width=3))
    store.append_blocking(
        [
            dense("10", timestamp=1, aggregation=Aggregation.SUM),
            dense("20", 2, ("a", "b"), excluded=(0,), probability=1.0, probabilities=(0.0, 1.0)),
            dense("30", timestamp=3, deferred=True),
            dense("40", timestamp=4, slot="top", shown=2, learned_through=3),
            dense("50", timestamp=2 * WAIT),
            reward("10", value=0.25),
            reward("10", value=0.5),
            reward("10", timestamp=2 * WAIT, value=100.0),
        ]
    )
    yield store
    store.close()


def test_each_settled_decision_has_a_row(store: SqliteStore, tmp_path: Path) -> None:
    manifest = export_loop(store, "shop", folder := tmp_path / "out")
    assert (manifest.rows, manifest.left_out, manifest.last_sequence) == (3, 1, 4)
    table = pl.read_parquet(folder / manifest.files[0].name)
    assert table.drop("features").to_dict(as_series=False) == {
        "number": [1, 2, 4],
        "event_id": ["10", "20", "40"],
        "slot": ["", "", "top"],
        "at": [1, 2, 4],
        "mode": ["Online", "Online", "Online"],
        "unit": ["", "", ""],
        "group": [None, None, None],
        "control_share": [0.0, 0.0, 0.0],
        "fallback": [False, False, False],
        "repeats": ["", "", ""],
        "model": [0, 0, 3],
        "actions": [["a", "b", "c"], ["b"], ["a", "b", "c"]],
        "values": [None, None, None],
        "costs": [None, None, None],
        "arm": [1, 0, 2],
        "propensity": [0.25, 1.0, 0.25],
        "reward": [0.75, 0.0, 0.0],
        "context": [None, None, None],
        "action_fields": [None, None, None],
        "probabilities": [[0.5, 0.25, 0.25], [1.0], [0.5, 0.25, 0.25]],
    }
    assert table.schema["features"] == pl.List(pl.List(pl.Float64))
    assert table.schema["context"] == pl.String
    assert table.schema["action_fields"] == pl.List(pl.String)
    assert table["features"].to_list()[1] == [[23.0, 24.0, 25.0]]


def test_baseline_is_the_first_arm_of_a_row(store: SqliteStore, tmp_path: Path) -> None:
    slot = dense("60", timestamp=5, loop="slots", excluded=(0,), baseline=2, probabilities=(0.0, 0.25, 0.75))
    store.append_blocking([slot, dense("70", timestamp=5, loop="slots", mode=Mode.APPRENTICE, baseline=1)])
    manifest = export_loop(store, "slots", folder := tmp_path / "out")
    table = pl.read_parquet(folder / manifest.files[0].name)
    assert table["actions"].to_list() == [["c", "b"], ["b", "a", "c"]]
    assert table["arm"].to_list() == [1, 0]
    assert table["probabilities"].to_list() == [[0.75, 0.25], [1.0, 0.0, 0.0]]
    assert table["features"].to_list()[0] == [[66.0, 67.0, 68.0], [63.0, 64.0, 65.0]]


def test_read_parquet_reads_the_export(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_export, "VALUES_PER_FILE", 1)
    monkeypatch.setattr(loop_export, "BATCH", 2)
    manifest = export_loop(store, "shop", folder := tmp_path / "out")
    assert [file.rows for file in manifest.files] == [1, 1, 1]
    (log,) = read_parquet(folder, Columns(features="features")).blocks()
    assert (len(log), log.dim) == (3, 3)
    np.testing.assert_array_equal(log.chosen, [1, 0, 2])
    np.testing.assert_array_equal(log.rewards, [0.75, 0.0, 0.0])
    assert log.propensities is not None
    np.testing.assert_array_equal(log.propensities, [0.25, 1.0, 0.25])
    assert log.probabilities is not None
    np.testing.assert_array_equal(log.probabilities, [[0.5, 0.25, 0.25], [1, 0, 0], [0.5, 0.25, 0.25]])


def test_manifest_lists_every_file(store: SqliteStore, tmp_path: Path) -> None:
    export_loop(store, "shop", folder := tmp_path / "out")
    manifest = json.loads((folder / "manifest.json").read_text())
    (file,) = manifest.pop("files")
    assert manifest.pop("running")["text"] == "optimist"
    assert manifest == {"loop": "shop", "rows": 3, "left_out": 1, "last_number": 4, "open": 1}
    assert sorted(path.name for path in folder.iterdir()) == [file["name"], "manifest.json"]
    assert hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest() == file["sha256"]


def test_failed_export_leaves_no_manifest_and_no_partial_file(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, **_: object) -> None:
        Path(path).write_bytes(b"PAR1")
        raise OSError("the disk is full")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda _, path, **settings: fail(path, **settings))
    with pytest.raises(OSError, match="the disk is full"):
        export_loop(store, "shop", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_empty_log_has_a_manifest_and_no_files(store: SqliteStore, tmp_path: Path) -> None:
    manifest = export_loop(store, "none", tmp_path / "out")
    assert (manifest.rows, manifest.left_out, manifest.last_sequence, manifest.files) == (0, 0, 0, [])


def test_invalid_exports_are_errors(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="an export needs a new or empty folder"):
        export_loop(store, "shop", tmp_path)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match="needs polars. In a clone of glbandits, run pip install"):
        export_loop(store, "shop", tmp_path / "out")
