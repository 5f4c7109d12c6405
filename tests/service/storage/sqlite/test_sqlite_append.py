"""Async appends of the SQLite store: in the event loop while that is quick, else in the store's thread."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Event, EventStatus, Receipt
from glbandits.service.storage import sqlite_store
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision, reward, run


class WatchedStore(SqliteStore):
    """Records which events its thread wrote."""

    def __init__(self, path: Path, *, durability: str = "process") -> None:
        super().__init__(path, durability=durability)
        self.by_thread: list[str] = []

    def append_blocking(self, events: Sequence[Event]) -> list[Receipt]:
        assert threading.current_thread() is not threading.main_thread()
        self.by_thread += [event.event_id for event in events]
        return super().append_blocking(events)


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[WatchedStore]:
    with closing(WatchedStore(tmp_path / "events.db")) as store:
        yield store


@pytest.fixture(name="other")
def other_fixture(tmp_path: Path, store: WatchedStore) -> Iterator[sqlite3.Connection]:
    """A connection of another writer, to the file that `store` has made."""
    assert store is not None
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as connection:
        yield connection


def test_a_fast_commit_needs_no_thread(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "FAST_COMMIT", 60.0)  # also on a busy machine

    async def main() -> list[Receipt]:
        return [*await store.append([decision("a")]), *await store.append([decision("a"), reward("a")])]

    assert [receipt.status for receipt in run(main())] == [
        EventStatus.ACCEPTED,
        EventStatus.DUPLICATE,
        EventStatus.ACCEPTED,
    ]
    assert store.by_thread == []


def test_the_event_loop_runs_while_another_process_writes(store: WatchedStore, other: sqlite3.Connection) -> None:
    async def main() -> None:
        other.execute("BEGIN IMMEDIATE")
        append = asyncio.create_task(store.append([decision("a")]))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not append.done()
        other.execute("COMMIT")
        assert (await append)[0].sequence == 1

    run(main())
    assert store.by_thread == ["a"]


def test_after_a_slow_commit_the_thread_writes(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(sqlite_store, "FAST_COMMIT", 0.0)
        for name in "abc":
            await store.append([decision(name)])
        monkeypatch.setattr(sqlite_store, "FAST_COMMIT", 60.0)
        for name in "de":
            await store.append([decision(name)])

    run(main())
    assert store.by_thread == ["b", "c", "d"]


@pytest.mark.parametrize("limit", ["INLINE_BYTES", "INLINE_EVENTS"])
def test_large_batches_go_to_the_thread(store: WatchedStore, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(sqlite_store, limit, 1)
    run(store.append([decision("a"), decision("b")]))
    assert store.by_thread == ["a", "b"]


def test_power_durability_waits_for_the_disk_in_the_thread(tmp_path: Path) -> None:
    with closing(WatchedStore(tmp_path / "power.db", durability="power")) as store:
        run(store.append([decision("a")]))
        assert store.by_thread == ["a"]


def test_an_invalid_event_is_refused_and_nothing_is_written(store: WatchedStore) -> None:
    with pytest.raises(InvalidInput, match="finite"):
        run(store.append([decision("a"), reward("a", value=float("nan"))]))
    assert store.decision("shop", "a") is None


def test_a_cancelled_append_leaves_a_working_store(store: WatchedStore, other: sqlite3.Connection) -> None:
    async def main() -> None:
        other.execute("BEGIN IMMEDIATE")
        append = asyncio.create_task(store.append([decision("a")]))
        await asyncio.sleep(0.02)
        append.cancel()
        other.execute("COMMIT")
        with pytest.raises(asyncio.CancelledError):
            await append
        assert (await store.append([decision("b")]))[0].status is EventStatus.ACCEPTED

    run(main())


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_closed_store_refuses_appends(tmp_path: Path, durability: str) -> None:
    store = SqliteStore(tmp_path / "closed.db", durability=durability)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        run(store.append([decision("a")]))
