"""The SQLite file: durability, permissions, locks, full disks, damage and backups."""

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from glbandits.common.errors import InvalidInput, UnknownName
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import EventStatus
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import WAIT, decision, reward
from tests.service.storage.sqlite.sqlite_helpers import make


def test_durability_sets_synchronous(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    for durability, level in (("process", 1), ("power", 2)):
        opened.clear()
        store = SqliteStore(tmp_path / durability, durability=durability)
        assert opened[0].execute("PRAGMA synchronous").fetchone() == (level,)
        assert opened[0].execute("PRAGMA journal_mode").fetchone() == ("wal",)
        store.close()
    with pytest.raises(UnknownName, match="unknown durability 'disk'.*Known: power, process"):
        SqliteStore(tmp_path / "x", durability="disk")


def test_files_have_mode_0600(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db", events=1)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    store.backup(tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    store.close()


def test_a_closed_store_is_one_file(tmp_path: Path) -> None:
    make(tmp_path / "events.db", events=3).close()
    assert [path.name for path in tmp_path.iterdir()] == ["events.db"]


def test_a_full_disk_raises_and_loses_nothing(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=1)
    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    opened[0].execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StoreError, match="could not be written: database or disk is"):
        store.append_blocking([decision("large", request=bytes(100_000))])
    assert store.decision("shop", "large") is None
    assert [receipt.status for receipt in store.append_blocking([decision("small")])] == [EventStatus.ACCEPTED]
    assert store.check() == []
    store.close()


def test_a_lock_of_another_process_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.service.storage.sqlite_store.LOCK_TIMEOUT", 50)
    store = make(tmp_path / "events.db", events=1)
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="could not be written: database is locked"):
            store.append_blocking([decision("x")])
        assert store.summary("shop").decisions[EventStatus.ACCEPTED] == 1
        other.execute("ROLLBACK")
    assert [receipt.status for receipt in store.append_blocking([decision("x")])] == [EventStatus.ACCEPTED]
    store.close()


def test_two_stores_on_one_file_share_numbers_and_seals(tmp_path: Path) -> None:
    first, second = make(tmp_path / "events.db", events=2), SqliteStore(tmp_path / "events.db")
    assert [receipt.sequence for receipt in second.append_blocking([decision("x")])] == [5]
    assert second.seal("shop", 0, WAIT + 1, 10) == 5
    assert [(receipt.status, receipt.sequence) for receipt in first.append_blocking([reward("x")])] == [
        (EventStatus.LATE, 6)
    ]
    second.close()
    first.close()


def test_a_second_store_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Else another process could take the write-ahead log away under both."""
    first, second = make(tmp_path / "events.db", events=1), SqliteStore(tmp_path / "events.db")
    other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode = DELETE')"
    done = subprocess.run(
        [sys.executable, "-c", other, tmp_path / "events.db"], capture_output=True, text=True, check=False
    )
    assert "database is locked" in done.stderr
    second.close()
    first.close()


def test_check_finds_damage(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=3)
    opened[0].execute("DELETE FROM decisions WHERE event_id = '1'")
    assert store.check() == ["rewards of no decision"]
    store.close()


def test_check_finds_a_damaged_index(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=3)
    opened[0].execute("PRAGMA writable_schema = ON")
    opened[0].execute("UPDATE sqlite_schema SET sql = sql || ' WHERE sequence > 5' WHERE name = 'decisions_by_time'")
    opened[0].execute("PRAGMA schema_version = 1000")  # connections read the schema again
    assert store.check() == ["wrong # of entries in index decisions_by_time"]
    store.close()


def test_check_reads_each_table_in_its_own_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long transaction would keep the write-ahead log from restarting."""
    store = make(tmp_path / "events.db", events=1)
    reading = Mock(side_effect=store._reading)
    monkeypatch.setattr(store, "_reading", reading)
    assert store.check() == []
    assert reading.call_count > 5
    store.close()


def test_a_backup_that_cannot_be_written_raises(tmp_path: Path) -> None:
    with closing(make(tmp_path / "events.db")) as store, pytest.raises(StoreError, match="could not be copied to"):
        store.backup(tmp_path / "no folder" / "copy.db")


def test_a_backup_while_others_write(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [store.append_blocking([decision(str(i)), reward(str(i))]) for i in range(100)])
        while store.summary("shop").first_at is None:
            pass
        store.backup(tmp_path / "copy.db")
        writing.result()
    with pytest.raises(InvalidInput, match="a backup must be a new file"):
        store.backup(tmp_path / "copy.db")
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.check() == []
    counted = copy.summary("shop")
    assert 1 <= counted.decisions[EventStatus.ACCEPTED] <= 100
    assert counted.decisions == counted.rewards
    copy.close()
    store.close()
