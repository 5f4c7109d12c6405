"""Groups that the event loop writes itself, because the store needs no wait, and what happens when it does need one."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.serving.errors import StoreError
from glbandits.serving.events import Event, Fate, Receipt
from glbandits.serving.group_writer import GroupWriter
from glbandits.serving.sqlite_store import SqliteStore
from tests.serving.makers import decision, reward, run


class Watched(SqliteStore):
    """Knows which events were written at once, and which by the thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.at_once: list[str] = []
        self.by_thread: list[str] = []
        self.may_append = threading.Event()
        self.may_append.set()

    def append(self, events: Sequence[Event]) -> list[Receipt]:
        assert self.may_append.wait(10)
        self.by_thread += [event.event_id for event in events]
        return super().append(events)

    def append_at_once(self, events: Sequence[Event]) -> list[Receipt] | None:
        receipts = super().append_at_once(events)
        if receipts is not None:
            self.at_once += [event.event_id for event in events]
        return receipts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    store = Watched(tmp_path / "events.db")
    yield store
    store.may_append.set()
    store.close()


@pytest.fixture
def writer(store: Watched) -> Iterator[GroupWriter]:
    writer = GroupWriter(store)
    yield writer
    store.may_append.set()
    writer.close()


@pytest.fixture
def other(tmp_path: Path, store: Watched) -> Iterator[sqlite3.Connection]:
    """Another process, which writes to the same file. `store` is there first."""
    assert store is not None
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as connection:
        yield connection


def test_alone_the_event_loop_writes(store: Watched, writer: GroupWriter) -> None:
    async def main() -> None:
        assert (await writer.submit(decision("a"))).fate is Fate.KEPT
        both = await asyncio.gather(writer.submit(decision("a")), writer.submit(reward("a")))
        assert [receipt.fate for receipt in both] == [Fate.DUPLICATE, Fate.KEPT]

    run(main())
    assert store.at_once == ["a", "a", "a"]
    assert (writer.counts.groups, writer.counts.events, writer.depth) == (2, 3, 0)


def test_while_another_writes_the_thread_waits_and_the_event_loop_does_not(
    store: Watched, writer: GroupWriter, other: sqlite3.Connection
) -> None:
    async def main() -> None:
        other.execute("BEGIN IMMEDIATE")
        first = writer.submit(decision("a"))
        rounds = 0
        for _ in range(20):
            await asyncio.sleep(0.005)
            rounds += 1
        assert rounds == 20
        assert not first.done()
        later = [writer.submit(decision("b")), writer.submit(reward("a"))]
        await asyncio.sleep(0.01)
        assert writer.unwritten("shop", "b", "") is not None
        other.execute("COMMIT")
        receipts = await asyncio.gather(first, *later)
        assert [receipt.number for receipt in receipts] == [1, 2, 3]
        assert (await writer.submit(decision("c"))).number == 4

    run(main())
    assert store.by_thread == ["a"]
    assert store.at_once == ["b", "a", "c"]  # what has gathered meanwhile, in its order
    assert writer.unwritten("shop", "b", "") is None


def test_what_has_gathered_is_written_by_the_thread_if_it_must_wait_again(
    store: Watched, writer: GroupWriter, other: sqlite3.Connection
) -> None:
    async def main() -> None:
        other.execute("BEGIN IMMEDIATE")
        store.may_append.clear()
        waiters = [writer.submit(decision("a"))]
        for name in "bc":
            await asyncio.sleep(0.01)
            waiters.append(writer.submit(decision(name)))
        await asyncio.sleep(0.01)
        store.append_at_once = lambda _: None  # type: ignore[method-assign, assignment]
        other.execute("COMMIT")
        store.may_append.set()
        assert [receipt.number for receipt in await asyncio.gather(*waiters)] == [1, 2, 3]

    run(main())
    assert store.by_thread == ["a", "b", "c"]


def test_a_store_that_was_slow_is_left_to_the_thread_for_a_while(
    store: Watched, writer: GroupWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        for name in "abc":
            await writer.submit(decision(name))
        await asyncio.sleep(0.06)
        await writer.submit(decision("d"))

    monkeypatch.setattr("glbandits.serving.group_writer.SLOW", 0.0)
    monkeypatch.setattr("glbandits.serving.group_writer.WARY", 0.05)
    run(main())
    assert store.at_once == ["a", "d"]
    assert store.by_thread == ["b", "c"]


def test_an_error_is_for_the_thread_to_tell(store: Watched, writer: GroupWriter) -> None:
    async def main() -> None:
        kept, wrong = writer.submit(decision("a")), writer.submit(reward("a", value=float("nan")))
        assert (await kept).fate is Fate.KEPT
        with pytest.raises(Exception, match="a reward must be a finite number"):
            await wrong

    run(main())
    assert store.at_once == []
    assert store.by_thread.count("a") >= 2


def test_an_event_loop_that_ends_in_the_middle_of_a_turn_leaves_it_to_the_thread(
    store: Watched, writer: GroupWriter
) -> None:
    async def leave() -> None:
        writer.submit(decision("a"))

    async def go_on() -> int:
        return (await writer.submit(decision("b"))).number

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    assert store.at_once == []
    assert run(go_on()) == 2
    writer.close()
    assert store.decision("shop", "a") is not None
    assert store.by_thread[0] == "a"


def test_power_is_never_for_the_event_loop_to_wait_for(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "power.db", durability="power")) as store:
        assert store.append_at_once([decision("a")]) is None
        assert store.decision("shop", "a") is None


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "closed.db")
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append_at_once([decision("a")])
