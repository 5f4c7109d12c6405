"""Versions of the tables, and files of other programs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import EventStatus
from glbandits.service.storage import sqlite_schema
from glbandits.service.storage.event_store import encode_body
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import WAIT, decision, reward
from tests.service.storage.sqlite.sqlite_helpers import make


def test_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("Dear diary, " * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = text.read_bytes(), other.read_bytes()
    with pytest.raises(StoreError, match="notes.txt could not be opened: file"):
        SqliteStore(text)
    with pytest.raises(StoreError, match="other.db is a database of another program"):
        SqliteStore(other)
    assert (text.read_bytes(), other.read_bytes()) == before
    with pytest.raises(StoreError, match="could not be opened"):
        SqliteStore(tmp_path / "no folder" / "events.db")


def test_a_refused_file_leaves_no_connection_open(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    (tmp_path / "notes.txt").write_text("Dear diary, " * 100)
    with pytest.raises(StoreError, match="could not be opened"):
        SqliteStore(tmp_path / "notes.txt")
    (connection,) = opened
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "events.db").close()
    with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="version 99 of the tables"):
        SqliteStore(tmp_path / "events.db")


def test_an_upgrade_is_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[sqlite3.Connection]
) -> None:
    make(tmp_path / "events.db", events=2).close()
    upgrades = sqlite_schema.UPGRADES
    wrong = ("ALTER TABLE decisions ADD COLUMN region TEXT NOT NULL DEFAULT ''", "CREATE TABLE decisions (x)")
    monkeypatch.setattr(sqlite_schema, "UPGRADES", (*upgrades, wrong))
    with pytest.raises(StoreError, match="table decisions already exists"):
        SqliteStore(tmp_path / "events.db")
    right = (
        "CREATE TABLE regions (loop TEXT PRIMARY KEY) STRICT",
        "INSERT INTO regions SELECT DISTINCT loop FROM decisions",
    )
    monkeypatch.setattr(sqlite_schema, "UPGRADES", (*upgrades, right))
    opened.clear()
    store = SqliteStore(tmp_path / "events.db")
    assert opened[0].execute("PRAGMA user_version").fetchone() == (len(upgrades) + 1,)
    assert opened[0].execute("SELECT loop FROM regions").fetchall() == [("shop",)]
    # Nothing is left of the upgrade that failed.
    assert "region" not in [row[1] for row in opened[0].execute("PRAGMA table_info(decisions)")]
    assert store.summary("shop").decisions[EventStatus.ACCEPTED] == 2
    store.close()


def test_a_store_of_version_1_is_upgraded(tmp_path: Path) -> None:
    kept = decision("a", timestamp=5)
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as old:
        for step in sqlite_schema.UPGRADES[0]:
            old.execute(step)
        old.execute(f"PRAGMA application_id = {sqlite_schema.APPLICATION}")
        old.execute("PRAGMA user_version = 1")
        row = (7, "shop", "a", "", 5, 5 + WAIT, encode_body(kept))
        old.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        old.execute("INSERT INTO rewards VALUES ('shop', 7, 8, 6, 0.5, 'k', 0)")
        old.execute("INSERT INTO seals VALUES ('shop', 7)")
        old.execute("INSERT INTO counts VALUES ('shop', 'decision', 'kept', 4), ('shop', 'reward', 'unknown', 3)")
        old.execute("UPDATE numbers SET last = 9")
    store = SqliteStore(tmp_path / "events.db")
    assert store.check() == []
    logged = store.decision("shop", "a")
    assert logged is not None
    assert (logged.sequence, logged.decision, [each.sequence for each in logged.rewards]) == (7, kept, [8])
    again = store.append_blocking([decision("b"), decision("a"), reward("a"), reward("nobody")])
    assert [(receipt.status, receipt.sequence) for receipt in again] == [
        (EventStatus.ACCEPTED, 10),
        (EventStatus.DUPLICATE, 7),
        (EventStatus.LATE, 11),
        (EventStatus.UNKNOWN, 0),
    ]
    counted = store.summary("shop")
    assert (counted.decisions[EventStatus.ACCEPTED], counted.decisions[EventStatus.DUPLICATE]) == (5, 1)
    assert (counted.rewards[EventStatus.LATE], counted.rewards[EventStatus.UNKNOWN]) == (1, 4)
    store.close()


def test_a_store_of_version_2_is_upgraded(tmp_path: Path) -> None:
    body = msgspec.msgpack.decode(encode_body(decision("a", timestamp=5)))
    del body["reward_range"]
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as old:
        for step in (step for steps in sqlite_schema.UPGRADES[:2] for step in steps):
            old.execute(step)
        old.execute(f"PRAGMA application_id = {sqlite_schema.APPLICATION}")
        old.execute("PRAGMA user_version = 2")
        row = (1, "shop", "a", "", 5, 5 + WAIT, msgspec.msgpack.encode(body))
        old.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        old.execute("UPDATE counts SET count = 1 WHERE kind = 'event'")
    with closing(SqliteStore(tmp_path / "events.db")) as store:
        new = decision("b", timestamp=5, reward_range=(0.0, 1.0))
        receipts = store.append_blocking([reward("a", value=1e9), new, reward("b", value=1e9)])
        assert [(receipt.status, receipt.sequence) for receipt in receipts] == [
            (EventStatus.ACCEPTED, 2),
            (EventStatus.ACCEPTED, 3),
            (EventStatus.OUT_OF_RANGE, 0),
        ]
        assert [each.decision for each in store.search("shop", "", 9)] == [new, decision("a", timestamp=5)]
        assert store.check() == []
