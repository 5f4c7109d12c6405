"""Checkpoints of the write-ahead log, and a log whose end is damaged."""

import random
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from glbandits.service.domain.events import EventStatus
from glbandits.service.storage import sqlite_store
from tests.service.helpers import decision
from tests.service.storage.sqlite.sqlite_helpers import decisions_in, make


def restarts(path: Path) -> int:
    """How many times the write-ahead log has begun again, by its head."""
    return int.from_bytes(Path(f"{path}-wal").read_bytes()[12:16], "big")


def test_maintenance_copies_the_log_to_the_file(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db", events=30)
    store.maintain()
    shutil.copy(tmp_path / "events.db", tmp_path / "copy.db")
    assert decisions_in(tmp_path / "copy.db") == 30
    store.append_blocking([decision("next")])
    assert restarts(tmp_path / "events.db") == 1
    store.close()


def test_the_log_restarts_under_steady_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "RESTART_PAGES", 20)
    store, stop = make(tmp_path / "events.db"), Event()

    def write() -> int:
        written = 0
        while not stop.is_set():
            store.append_blocking([decision(str(written))])
            written += 1
        return written

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for _ in range(1000):
                store.maintain()
                if restarts(tmp_path / "events.db") >= 3:
                    break
        finally:
            stop.set()
    assert restarts(tmp_path / "events.db") >= 3
    assert store.summary("shop").decisions[EventStatus.ACCEPTED] == writing.result()
    store.close()


def test_the_log_is_bounded_without_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "MAX_PAGES", 50)
    store = make(tmp_path / "events.db", events=100)
    assert restarts(tmp_path / "events.db") >= 2
    assert Path(f"{tmp_path}/events.db-wal").stat().st_size < 80 * 4200
    store.close()


def test_maintenance_does_not_wait_for_others(tmp_path: Path) -> None:
    """Neither for a reader of an old state nor for another process that writes; and what they see stays."""
    path = tmp_path / "events.db"
    store, reader, writer = make(path, events=5), sqlite3.connect(path), sqlite3.connect(path, isolation_level=None)
    with closing(reader), closing(writer):
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM decisions").fetchone() == (5,)
        store.append_blocking([decision("x")])
        writer.execute("BEGIN IMMEDIATE")
        store.maintain()
        writer.execute("ROLLBACK")
        assert reader.execute("SELECT count(*) FROM decisions").fetchone() == (5,)
    store.maintain()
    assert store.check() == []
    store.close()


def test_the_log_shrinks_after_a_long_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "MAX_PAGES", 20)
    path = tmp_path / "events.db"
    store, log_file = make(path, events=1), Path(f"{path}-wal")
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM decisions").fetchone()
        for number in range(100):
            store.append_blocking([decision(f"more {number}")])
        assert log_file.stat().st_size > 100 * 4096
    store.maintain()
    store.append_blocking([decision("last")])
    assert log_file.stat().st_size <= 20 * 4096
    store.close()


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_log_end_loses_only_the_end(tmp_path: Path, damage: str) -> None:
    """A write-ahead log whose end did not reach the disk: what was committed before the damage is there, in order."""
    source = tmp_path / "source.db"
    store = make(source, events=60)
    written = Path(f"{source}-wal").read_bytes()
    dice = random.Random(5)
    found = []
    for trial in range(40):
        copy = tmp_path / f"{trial}.db"
        shutil.copy(source, copy)
        at = dice.randrange(len(written))
        garbage = b"" if damage == "cut" else dice.randbytes(len(written) - at)
        Path(f"{copy}-wal").write_bytes(written[:at] + garbage)
        found.append((at, decisions_in(copy)))
    store.close()
    kept = [count for _, count in sorted(found)]
    assert kept == sorted(kept)
    assert kept[0] < 20 < 40 < kept[-1]
