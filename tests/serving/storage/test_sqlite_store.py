"""What is special to a store in a SQLite file: versions, files of others, full disks, torn tails."""

import random
import shutil
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.errors import InvalidInput, UnknownName
from glbandits.serving.domain.errors import StoreError
from glbandits.serving.domain.events import Event as LogEvent
from glbandits.serving.domain.events import EventStatus, Receipt
from glbandits.serving.storage import sqlite_log, sqlite_schema, sqlite_store
from glbandits.serving.storage.event_store import encode_body
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.makers import WAIT, activation, decision, reward

HARMLESS = {"SCAN CONSTANT ROW", "USE TEMP B-TREE FOR ORDER BY"}
"""Questions side by side, and the sorting of what was found by name."""


EVENTS = st.one_of(
    st.builds(decision, st.sampled_from("ab"), loop=st.sampled_from("xy"), slot=st.sampled_from(["", "1"])),
    st.builds(
        reward,
        st.sampled_from("abc"),
        st.integers(0, 2 * WAIT),
        loop=st.sampled_from("xy"),
        key=st.sampled_from(["", "k"]),
    ),
    st.builds(activation, st.sampled_from("abc"), st.integers(0, 2 * WAIT), loop=st.sampled_from("xy")),
)
"""Few names, so that most are known."""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections that stores open, in order: the first one of a store writes."""
    connections, connect = list[sqlite3.Connection](), sqlite3.connect

    def recorded(*args: Any, **named: Any) -> sqlite3.Connection:
        connections.append(connect(*args, **named))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    return connections


def numbers(receipts: list[Receipt]) -> list[int]:
    return [receipt.sequence for receipt in receipts]


def make(path: Path, events: int = 0) -> SqliteStore:
    store = SqliteStore(path)
    for i in range(events):
        store.append_blocking([decision(str(i)), reward(str(i))])
    return store


def test_durability_is_sqlite_s_setting(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    for durability, level in (("process", 1), ("power", 2)):
        opened.clear()
        store = SqliteStore(tmp_path / durability, durability=durability)
        assert opened[0].execute("PRAGMA synchronous").fetchone() == (level,)
        assert opened[0].execute("PRAGMA journal_mode").fetchone() == ("wal",)
        store.close()
    with pytest.raises(UnknownName, match="unknown durability 'disk'.*KnownDecision: power, process"):
        SqliteStore(tmp_path / "x", durability="disk")


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db", events=1)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    store.backup(tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    store.close()


def test_a_closed_store_is_one_file(tmp_path: Path) -> None:
    make(tmp_path / "events.db", events=3).close()
    assert [path.name for path in tmp_path.iterdir()] == ["events.db"]


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("Dear diary, " * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = text.read_bytes(), other.read_bytes()
    with pytest.raises(StoreError, match="notes.txt could not be opened: file is not a database"):
        SqliteStore(text)
    with pytest.raises(StoreError, match="other.db is a database of another program; use a new file"):
        SqliteStore(other)
    assert (text.read_bytes(), other.read_bytes()) == before
    with pytest.raises(StoreError, match="could not be opened"):
        SqliteStore(tmp_path / "no folder" / "events.db")


def test_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    make(tmp_path / "events.db").close()
    with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="version 99 of the tables; this version of glbandits knows up to 4"):
        SqliteStore(tmp_path / "events.db")


def test_an_upgrade_is_whole_or_not_at_all(
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


def test_a_store_of_version_1_keeps_its_numbers_counts_and_seals(tmp_path: Path) -> None:
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
    found = store.decision("shop", "a")
    assert found is not None
    assert (found.sequence, found.decision, [each.sequence for each in found.rewards]) == (7, kept, [8])
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


def test_a_store_of_version_2_accepts_all_rewards_of_old_decisions(tmp_path: Path) -> None:
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
        found = store.append_blocking([reward("a", value=1e9), new, reward("b", value=1e9)])
        assert [(receipt.status, receipt.sequence) for receipt in found] == [
            (EventStatus.ACCEPTED, 2),
            (EventStatus.ACCEPTED, 3),
            (EventStatus.OUT_OF_RANGE, 0),
        ]
        assert [each.decision for each in store.search("shop", "", 9)] == [new, decision("a", timestamp=5)]
        assert store.check() == []


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=1)
    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    opened[0].execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StoreError, match="could not be written: database or disk is full"):
        store.append_blocking([decision("large", request=bytes(100_000))])
    assert store.decision("shop", "large") is None
    assert [receipt.status for receipt in store.append_blocking([decision("small")])] == [EventStatus.ACCEPTED]
    assert store.check() == []
    store.close()


def test_another_process_that_holds_the_lock_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glbandits.serving.storage.sqlite_store.LOCK_TIMEOUT", 50)
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


def test_a_second_store_of_a_process_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """Else another process could take the write-ahead log away under both."""
    first, second = make(tmp_path / "events.db", events=1), SqliteStore(tmp_path / "events.db")
    other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode = DELETE')"
    done = subprocess.run(
        [sys.executable, "-c", other, tmp_path / "events.db"], capture_output=True, text=True, check=False
    )
    assert "database is locked" in done.stderr
    second.close()
    first.close()


def test_what_another_process_wrote_meanwhile_is_known(tmp_path: Path) -> None:
    """A decision that is taken to be new is in the log all the same: it is found, and its number and the counts fit."""
    first, second = SqliteStore(tmp_path / "events.db"), SqliteStore(tmp_path / "events.db")
    assert numbers(first.append_blocking([decision("a")])) == [1]
    assert numbers(second.append_blocking([decision("b"), decision("a"), reward("a")])) == [2, 1, 3]
    assert numbers(first.append_blocking([decision("b"), decision("c")])) == [2, 4]
    for store in (first, second):
        assert store.summary("shop").decisions == dict.fromkeys(EventStatus, 0) | {
            EventStatus.ACCEPTED: 3,
            EventStatus.DUPLICATE: 2,
        }
        assert store.check() == []
        store.close()


@settings(max_examples=40, deadline=None)
@given(calls=st.lists(st.lists(EVENTS, max_size=8), max_size=6))
def test_to_trust_that_decisions_are_new_changes_nothing(calls: list[list[LogEvent]]) -> None:
    """The same receipts, rows and counts as if the log were asked for every name."""
    with TemporaryDirectory() as folder:
        store, careful = SqliteStore(Path(folder) / "store.db"), SqliteStore(Path(folder) / "careful.db")
        for events in calls:
            receipts = store.append_blocking(events)
            with closing(sqlite3.connect(Path(folder) / "careful.db")) as connection, connection:
                assert sqlite_log.append(connection, events, assume_new=False) == receipts
        store.close()
        careful.close()
        for table in ("decisions", "rewards", "activations", "event_counts"):
            assert _rows(Path(folder) / "store.db", table) == _rows(Path(folder) / "careful.db", table)


def _rows(path: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_a_long_call_with_a_known_name_near_its_end_is_judged_as_a_whole(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db")
    store.append_blocking([decision("known")])
    names = [str(i) for i in range(2 * sqlite_log.ROWS_AT_ONCE)]
    receipts = store.append_blocking([decision(name) for name in (*names, "known", "last")])
    assert numbers(receipts) == [*range(2, len(names) + 2), 1, len(names) + 2]
    assert store.summary("shop").decisions[EventStatus.ACCEPTED] == len(names) + 2
    store.close()


def test_a_row_that_sqlite_refuses_is_no_known_name(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db")
    with pytest.raises(StoreError, match="could not be written: cannot store REAL value in INTEGER column"):
        store.append_blocking([decision("a"), decision("b", timestamp=0.5)])  # type: ignore[arg-type]
    assert store.decision("shop", "a") is None
    store.close()


def test_few_statements_for_a_call(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=2)
    asked: list[str] = []
    opened[0].set_trace_callback(asked.append)
    store.append_blocking([decision(f"d{i}") for i in range(sqlite_log.ROWS_AT_ONCE)])
    assert [statement.split()[0] for statement in asked] == ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]
    asked.clear()
    store.append_blocking([reward(f"d{i}") for i in range(sqlite_log.ROWS_AT_ONCE)])
    assert [statement.split()[0] for statement in asked] == ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]
    store.close()


def restarts(path: Path) -> int:
    """How many times the write-ahead log has begun again, by its head."""
    return int.from_bytes(Path(f"{path}-wal").read_bytes()[12:16], "big")


def test_tidying_brings_everything_to_its_place(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db", events=30)
    store.maintain()
    shutil.copy(tmp_path / "events.db", tmp_path / "copy.db")
    assert _sound_prefix(tmp_path / "copy.db") == 30
    store.append_blocking([decision("next")])
    assert restarts(tmp_path / "events.db") == 1
    store.close()


def test_a_log_begins_again_under_steady_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_store_that_nobody_tidies_has_a_log_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "MAX_PAGES", 50)
    store = make(tmp_path / "events.db", events=100)
    assert restarts(tmp_path / "events.db") >= 2
    assert Path(f"{tmp_path}/events.db-wal").stat().st_size < 80 * 4200
    store.close()


def test_tidying_waits_for_nobody(tmp_path: Path) -> None:
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


def test_what_comes_while_the_log_is_deleted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[sqlite3.Connection]
) -> None:
    """Another process has a decision written after each step."""
    store, other = make(tmp_path / "events.db", events=3), SqliteStore(tmp_path / "events.db")
    last = store.last_sequence("shop")
    monkeypatch.setattr("glbandits.serving.storage.sqlite_store.DELETED_AT_ONCE", 1)
    delete, steps = sqlite_log.delete_oldest, iter(range(10))

    def deleted(*args: Any) -> int:
        opened[0].execute("COMMIT")  # what came after the step before
        other.append_blocking([decision(f"new-{next(steps)}")])
        opened[0].execute("BEGIN IMMEDIATE")
        return delete(*args)

    monkeypatch.setattr(sqlite_log, "delete_oldest", deleted)
    assert store.delete_log("shop") == 3
    assert [each.sequence > last for each in store.search("shop", "", 100)] == [True] * 4
    other.close()
    store.close()


def test_damage_is_found(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=3)
    opened[0].execute("DELETE FROM decisions WHERE event_id = '1'")
    assert store.check() == ["rewards of no decision"]
    store.close()


def test_no_question_goes_through_a_whole_table(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=2)
    asked: set[str] = set()
    store.summary("shop")  # opens a connection that reads
    for connection in opened:
        with suppress(sqlite3.ProgrammingError):  # one of them was for opening the store, and is closed
            connection.set_trace_callback(asked.add)
    store.append_blocking([decision("a"), reward("0", key="k"), activation("0")])
    store.seal("shop", 0, 2 * WAIT, 10)
    store.settled("shop", 0, 2 * WAIT, 10)
    store.search("shop", "a", 5)
    store.search("shop", "", 5)
    store.decision("shop", "a")
    store.summary("shop")
    store.last_sequence("shop", before=1)
    store.delete_log("shop", up_to=1)
    questions = [question for question in asked if question.split()[0] in ("SELECT", "DELETE")]
    (by_name,) = [question for question in questions if "event_id = 'a'" in question]
    assert "event_id=?" in str(opened[0].execute(f"EXPLAIN QUERY PLAN {by_name}").fetchall())
    steps = [step for question in questions for *_, step in opened[0].execute(f"EXPLAIN QUERY PLAN {question}")]
    store.close()
    assert len(questions) >= 15
    assert any("event_id>? AND event_id<?" in step for step in steps)
    for step in steps:
        assert step.startswith("SEARCH") or "VIRTUAL TABLE" in step or step in HARMLESS or "SUBQUERY" in step, step


def test_a_limit_of_none_is_refused(tmp_path: Path) -> None:
    with closing(make(tmp_path / "events.db")) as store:
        with pytest.raises(InvalidInput, match="limit must be a whole number of at least 1; got 0"):
            store.search("shop", "", 0)
        with pytest.raises(InvalidInput, match="limit must be a whole number of at least 1; got -1"):
            store.settled("shop", 0, 0, -1)


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_torn_tail_loses_no_more_than_the_end(tmp_path: Path, damage: str) -> None:
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
        found.append((at, _sound_prefix(copy)))
    store.close()
    kept = [count for _, count in sorted(found)]
    assert kept == sorted(kept)
    assert kept[0] < 20 < 40 < kept[-1]


def _sound_prefix(path: Path) -> int:
    """How many decisions a store has: it must be whole, and they the first ones."""
    store = SqliteStore(path)
    assert store.check() == []
    found = [each.decision.event_id for each in reversed(store.search("shop", "", 1000))]
    assert found == [str(i) for i in range(len(found))]
    assert store.summary("shop").rewards[EventStatus.ACCEPTED] == len(found)
    assert [receipt.status for receipt in store.append_blocking([decision("next")])] == [EventStatus.ACCEPTED]
    store.close()
    return len(found)


def test_a_backup_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with closing(make(tmp_path / "events.db")) as store, pytest.raises(StoreError, match="could not be copied to"):
        store.backup(tmp_path / "no folder" / "copy.db")


def test_large_decisions_are_written_one_by_one_and_none_is_lost(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    with closing(SqliteStore(tmp_path / "events.db")) as store:
        traced: list[str] = []
        opened[0].set_trace_callback(traced.append)
        events = [decision(f"e{i}", request=bytes(2 * sqlite_log.LARGE if i % 2 else 10)) for i in range(10)]
        assert [receipt.sequence for receipt in store.append_blocking(events)] == list(range(1, 11))
        inserted = [statement for statement in traced if statement.startswith("INSERT INTO decisions")]
        assert len(inserted) == 6
        assert {kept.sequence: kept.decision for kept in store.search("shop", "", 20)} == dict(enumerate(events, 1))


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
