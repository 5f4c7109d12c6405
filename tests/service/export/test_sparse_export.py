"""Logs of sparse loops: exported, read again and evaluated."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from glbandits.evaluation.readers.service_export import read_export
from glbandits.service.domain.events import Reward
from glbandits.service.export.loop_export import export_loop
from tests.cli.in_process import glb
from tests.service.runtime.loops.loop_helpers import Clock, ask, play_rounds, small_loop

WIDE = 2**24


def test_export_has_the_features_that_decided(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    made = play_rounds(loop, store, clock, 40)
    some = ask(loop, "excluded", "noon", excluded=(1,))
    store.append_blocking([some, Reward(loop="default", event_id="excluded", timestamp=clock(), value=0.5)])
    clock.wait(11)
    loop.learn()
    written = export_loop(store, "default", tmp_path / "log")
    assert (written.rows, written.sparse_width) == (41, WIDE)
    log = read_export(tmp_path / "log")
    assert (len(log), log.dim, log.sparse) == (41, WIDE, True)
    (block,) = log.blocks()
    assert block.chosen[:40].tolist() == [decision.shown for decision in made]
    assert block.propensities is not None
    assert block.propensities[:40].tolist() == [decision.probability for decision in made]
    arms: Any = block.arms
    assert arms.counts.tolist() == [3] * 40 + [2]
    expected = loop.published.encoder.hashing.rows({"time": "noon"}, [{"topic": "news"}, {"topic": "music"}])  # type: ignore[union-attr]
    last = arms.every_arm().rows(120, 122)
    for part, wanted in zip(last, expected, strict=True):
        np.testing.assert_array_equal(part, wanted)
    assert [len(part) for part in log.blocks(15)] == [15, 15, 11]
    store.close()


def test_sparse_log_has_the_features_of_its_dense_twin(tmp_path: Path) -> None:
    features: list[Any] = []
    for sparse in (False, True):
        (folder := tmp_path / str(sparse)).mkdir()
        loop, store = small_loop(folder, clock := Clock(), width=512, sparse=sparse, exploration=1.0)
        play_rounds(loop, store, clock, 30)
        export_loop(store, "default", folder / "log")
        (block,) = read_export(folder / "log").blocks()
        assert block.sparse is sparse
        features.append(block.arms)
        store.close()
    dense, rows = features[0].features(), features[1].every_arm()
    np.testing.assert_array_equal(
        csr_array((rows.values, rows.indices, rows.indptr), (90, 512)).toarray(), dense.reshape(90, 512)
    )


@pytest.mark.slow
def test_command_evaluates_a_sparse_loop(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE, exploration=1.0)
    play_rounds(loop, store, clock, 200)
    store.close()
    run = glb("store", "export", "log", "--store", "events.sqlite", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip().endswith("Evaluate the export with: glb evaluate log")
    for log in ("log", "events.sqlite"):
        run = glb("evaluate", log, "--policy", "uniform", "--estimator", "ips", folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert "uniform: evaluated on all 200 rows" in run.stdout
    run = glb("evaluate", "log", "--context", "age", "--policy", "uniform", folder=tmp_path)
    assert run.returncode != 0
    assert "does not apply to log" in run.stderr
    assert pl.read_parquet(tmp_path / "log/*.parquet")["feature_indices"].list.max().max() < WIDE  # type: ignore[operator]


def test_commands_with_fixed_columns_read_a_sparse_export(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE, exploration=1.0)
    play_rounds(loop, store, clock, 20)
    export_loop(store, "default", tmp_path / "log")
    store.close()
    run = glb("train", "log", "--policy", "uniform", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "(20 rows learned)" in run.stdout
    run = glb(
        "evaluate", "log", "--slate", "event_id", "--policy", "uniform", "--estimator", "slate-ips", folder=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("uniform")
    run = glb("evaluate", "log", "--policy", "uniform", "--slate", "event", folder=tmp_path)
    assert "no column 'event'" in run.stderr
