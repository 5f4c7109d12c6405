"""Units of a loop with a control group: their export, and the comparison of the groups from it."""

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.common.export_manifest import Manifest, read_manifest
from glbandits.service.domain.groups.experiment import REWARD, MetricSettings, UnitCombination
from glbandits.service.export.loop_export import export_loop
from glbandits.service.export.unit_comparison import compare_groups
from glbandits.service.export.unit_export import UNITS
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.guarded_loops import LOOP, RETURNED, SHARE, WINDOW, GuardedLoop


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "store.db")


def live_report(guarded: GuardedLoop) -> list[dict[str, Any]]:
    """The metrics as the service reports them."""
    return [msgspec.to_builtins(each) for each in guarded.guardrails.report(guarded.configuration).metrics]


def exported(guarded: GuardedLoop, folder: Path) -> Manifest:
    """Export the units, without decisions."""
    return export_loop(guarded.store, LOOP, folder, modes=())


def assert_same_comparison(folder: Path, guarded: GuardedLoop) -> None:
    groups = compare_groups(folder)
    assert groups is not None
    for record, live in zip(groups.record, live_report(guarded), strict=True):
        for each in (record, live):  # the clock of the service decides these
            each.update(alarmedAt=None, waiting=0, sentence=str(each["sentence"]).partition(" The guardrail ")[0])
        assert record == live


@pytest.fixture
def guarded(store: SqliteStore) -> GuardedLoop:
    """A loop with a metric whose numbers are rounded when they are scaled."""
    summed = MetricSettings(range=(-0.1, 3.7), window=WINDOW, combine=UnitCombination.SUM, margin=0.3)
    return GuardedLoop(store, metrics={REWARD: summed, "returned": RETURNED})


def test_export_has_the_same_comparison_to_the_last_bit(guarded: GuardedLoop, tmp_path: Path) -> None:
    guarded.write_harm(330)
    guarded.write([0.1, 1 / 3, 5.0, -2.0, None] * 10, predicted=(0.3, 0.7))
    guarded.wait()
    guarded.look()
    guarded.write_harm(50)  # their windows are open
    exported(guarded, tmp_path / "export")
    manifest = read_manifest(tmp_path / "export")
    assert manifest.units is not None
    assert (manifest.units.name, manifest.units.rows) == (UNITS, 704)
    assert {name: metric.units for name, metric in manifest.metrics.items()} == {REWARD: 352, "returned": 352}
    table = pl.read_parquet(tmp_path / "export" / UNITS)
    numbers = table["number"].to_list()
    assert numbers[:352] == numbers[352:] == sorted(set(numbers))
    assert table.filter(metric=REWARD)["value"].tail(22).to_list()[:5] == [0.1, 1 / 3, 3.7, -0.1, 0.0]
    (start,) = guarded.store.units_after(LOOP, numbers[-1] - 1, 1)
    assert table.row(703, named=True) == {
        "metric": "returned",
        "number": start.first,
        "at": start.since,
        "group": "treatment",
        "share": SHARE,
        "value": 1 / 3,
        "predicted": [0.3, 0.7],
    }
    assert_same_comparison(tmp_path / "export", guarded)


def test_units_before_a_new_start_are_not_exported(guarded: GuardedLoop, tmp_path: Path) -> None:
    guarded.write_harm(400)
    guarded.wait()
    guarded.look()
    guarded.guardrails.resume()
    guarded.write([0.0, 1.0] * 40)
    guarded.wait()
    guarded.look()
    assert exported(guarded, tmp_path / "export").metrics["returned"].units == 64
    assert_same_comparison(tmp_path / "export", guarded)


def test_deleted_units_are_named(guarded: GuardedLoop, tmp_path: Path) -> None:
    guarded.write([0.0, 1.0] * 32)
    guarded.clock.wait(1.0)
    middle = guarded.clock()
    guarded.write([0.0, 1.0] * 32)
    guarded.wait()
    guarded.look()
    guarded.store.delete_log(LOOP, before=middle)
    exported(guarded, tmp_path / "export")
    groups = compare_groups(tmp_path / "export")
    assert groups is not None
    assert all("64 more units were counted" in sentence for sentence in groups.sentences)


def test_loop_without_counted_units_has_no_comparison(guarded: GuardedLoop, tmp_path: Path) -> None:
    guarded.write([1.0] * 40)
    assert exported(guarded, tmp_path / "open").units is None
    assert compare_groups(tmp_path / "open") is None


def test_damaged_units_are_refused(guarded: GuardedLoop, tmp_path: Path) -> None:
    guarded.write([0.0, 1.0] * 32)
    guarded.wait()
    guarded.look()
    exported(guarded, folder := tmp_path / "export")
    table = pl.read_parquet(folder / UNITS)
    for damaged in (table.head(5), table.drop("share")):
        damaged.write_parquet(folder / UNITS)
        with pytest.raises(InvalidInput):
            compare_groups(folder)
    (folder / UNITS).unlink()
    with pytest.raises((InvalidInput, OSError)):
        compare_groups(folder)
