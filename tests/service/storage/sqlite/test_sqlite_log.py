"""Appending to, querying and deleting the log in SQLite."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Event as LogEvent
from glbandits.service.domain.events import EventStatus, Receipt
from glbandits.service.storage import sqlite_log
from glbandits.service.storage.action_sets import RecentSets
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import WAIT, activation, decision, reward
from tests.service.storage.sqlite.sqlite_helpers import make, numbers

HARMLESS = {"SCAN CONSTANT ROW", "USE TEMP B-TREE FOR ORDER BY"}
"""Steps of a query plan besides searches in an index: several subqueries, and sorting of rows found by name."""


EVENTS = st.one_of(
    st.builds(decision, st.sampled_from("ab"), loop=st.sampled_from("xy")),
    st.builds(decision, st.just("a"), slot=st.sampled_from("12"), slots=st.just(("1", "2"))),
    st.builds(
        reward,
        st.sampled_from("abc"),
        st.integers(0, 2 * WAIT),
        loop=st.sampled_from("xy"),
        key=st.sampled_from(["", "k"]),
    ),
    st.builds(activation, st.sampled_from("abc"), st.integers(0, 2 * WAIT), loop=st.sampled_from("xy")),
)
"""Events with few names, so that most are duplicates."""


def test_events_of_another_process_are_found(tmp_path: Path) -> None:
    """A decision that another process has written is found, and sequence numbers and counts are right."""
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
def test_assuming_new_decisions_changes_nothing(calls: list[list[LogEvent]]) -> None:
    """The receipts, rows and counts are the same as if every decision were looked up."""
    with TemporaryDirectory() as folder:
        store, careful = SqliteStore(Path(folder) / "store.db"), SqliteStore(Path(folder) / "careful.db")
        for events in calls:
            receipts = store.append_blocking(events)
            with closing(sqlite3.connect(Path(folder) / "careful.db")) as connection, connection:
                assert _careful_append(connection, events) == receipts
        store.close()
        careful.close()
        for table in ("decisions", "rewards", "activations", "event_counts"):
            assert _rows(Path(folder) / "store.db", table) == _rows(Path(folder) / "careful.db", table)


def _careful_append(connection: sqlite3.Connection, events: list[LogEvent]) -> list[Receipt]:
    """Append with all events looked up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_log, "_named", lambda _, events: (events, {}))
        return sqlite_log.append(connection, events, RecentSets())


def _rows(path: Path, table: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def test_a_long_batch_with_a_duplicate_is_classified(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db")
    store.append_blocking([decision("known")])
    names = [str(i) for i in range(2 * sqlite_log.MAX_ROWS)]
    receipts = store.append_blocking([decision(name) for name in (*names, "known", "last")])
    assert numbers(receipts) == [*range(2, len(names) + 2), 1, len(names) + 2]
    assert store.summary("shop").decisions[EventStatus.ACCEPTED] == len(names) + 2
    store.close()


def test_a_row_that_sqlite_refuses_is_no_duplicate(tmp_path: Path) -> None:
    store = make(tmp_path / "events.db")
    with pytest.raises(StoreError, match="could not be written: cannot store REAL value"):
        store.append_blocking([decision("a"), decision("b", timestamp=0.5)])  # type: ignore[arg-type]
    assert store.decision("shop", "a") is None
    store.close()


def test_a_large_batch_needs_no_more_statements(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=2)
    statements: list[str] = []
    opened[0].set_trace_callback(statements.append)
    store.append_blocking([decision("single"), reward("single")])
    count = len(statements)
    statements.clear()
    names = [f"d{i}" for i in range(sqlite_log.MAX_ROWS)]
    store.append_blocking([*map(decision, names), *map(reward, names)])
    assert len(statements) <= count
    store.close()


def test_events_during_a_deletion_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[sqlite3.Connection]
) -> None:
    """Another process writes a decision after each step."""
    store, other = make(tmp_path / "events.db", events=3), SqliteStore(tmp_path / "events.db")
    last = store.last_sequence("shop")
    monkeypatch.setattr("glbandits.service.storage.loop_store.DELETED_AT_ONCE", 1)
    delete, steps = store._delete_oldest, iter(range(10))

    def deleted(*args: Any) -> int:
        opened[0].execute("COMMIT")  # what came after the step before
        other.append_blocking([decision(f"new-{next(steps)}")])
        opened[0].execute("BEGIN IMMEDIATE")
        return delete(*args)

    monkeypatch.setattr(store, "_delete_oldest", deleted)
    assert store.delete_log("shop") == 3
    assert [each.sequence > last for each in store.search("shop", "", 100)] == [True] * 4
    other.close()
    store.close()


def test_no_query_scans_a_whole_table(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    store = make(tmp_path / "events.db", events=2)
    executed: set[str] = set()
    store.summary("shop")  # opens a connection that reads
    for connection in opened:
        with suppress(sqlite3.ProgrammingError):  # one of them was for opening the store, and is closed
            connection.set_trace_callback(executed.add)
    store.append_blocking([decision("a"), reward("0", key="k"), activation("0")])
    store.seal("shop", 0, 2 * WAIT, 10)
    store.settled("shop", 0, 2 * WAIT, 10)
    store.search("shop", "a", 5)
    store.search("shop", "", 5)
    store.decision("shop", "a")
    store.summary("shop")
    store.last_sequence("shop", before=1)
    store.delete_log("shop", up_to=1)
    queries = [statement for statement in executed if statement.split()[0] in ("SELECT", "DELETE")]
    steps = [step for query in queries for *_, step in opened[0].execute(f"EXPLAIN QUERY PLAN {query}")]
    store.close()
    assert queries
    for step in steps:
        assert step.startswith("SEARCH") or "VIRTUAL TABLE" in step or step in HARMLESS or "SUBQUERY" in step, step


def test_a_limit_below_1_is_refused(tmp_path: Path) -> None:
    with closing(make(tmp_path / "events.db")) as store:
        with pytest.raises(InvalidInput, match="limit must be a whole number of at least 1"):
            store.search("shop", "", 0)
        with pytest.raises(InvalidInput, match="limit must be a whole number of at least 1"):
            store.settled("shop", 0, 0, -1)


def test_large_and_small_decisions_are_written_together(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "events.db")) as store:
        events = [decision(f"e{i}", request=bytes(2 * sqlite_log.LARGE_BODY if i % 2 else 10)) for i in range(10)]
        assert [receipt.sequence for receipt in store.append_blocking(events)] == list(range(1, 11))
        assert {kept.sequence: kept.decision for kept in store.search("shop", "", 20)} == dict(enumerate(events, 1))
