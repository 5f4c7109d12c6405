"""Groups that the event loop writes itself, because the store needs no wait, and what happens when it does need one."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.serving.domain.errors import StoreError
from glbandits.serving.domain.events import Event, Fate, Receipt
from glbandits.serving.runtime.batch_writer import BatchWriter
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.makers import decision, reward, run, wait_until


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
def writer(store: Watched) -> Iterator[BatchWriter]:
    writer = BatchWriter(store)
    yield writer
    store.may_append.set()
    writer.close()


@pytest.fixture
def other(tmp_path: Path, store: Watched) -> Iterator[sqlite3.Connection]:
    """Another process, which writes to the same file. `store` is there first."""
    assert store is not None
    with closing(sqlite3.connect(tmp_path / "events.db", isolation_level=None)) as connection:
        yield connection


def test_alone_the_event_loop_writes(store: Watched, writer: BatchWriter) -> None:
    async def main() -> None:
        assert (await writer.submit(decision("a"))).fate is Fate.KEPT
        both = await asyncio.gather(writer.submit(decision("a")), writer.submit(reward("a")))
        assert [receipt.fate for receipt in both] == [Fate.DUPLICATE, Fate.KEPT]

    run(main())
    assert store.at_once == ["a", "a", "a"]
    assert (writer.counts.groups, writer.counts.events, writer.depth) == (2, 3, 0)


def test_while_another_writes_the_thread_waits_and_the_event_loop_does_not(
    store: Watched, writer: BatchWriter, other: sqlite3.Connection
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
    assert store.by_thread == ["a", "b", "a"]  # the second time quickly
    assert store.at_once == ["c"]
    assert writer.unwritten("shop", "b", "") is None


def test_what_has_gathered_is_written_at_once_in_its_order_when_the_thread_is_free(
    store: Watched, writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with monkeypatch.context() as blocked:
            blocked.setattr(store, "append_at_once", lambda _: None)
            store.may_append.clear()
            waiters = [writer.submit(decision("a"))]
            await asyncio.sleep(0.01)
        for event in (decision("b"), reward("a"), decision("c")):
            waiters.append(writer.submit(event))
            await asyncio.sleep(0.01)
        store.may_append.set()
        assert [receipt.number for receipt in await asyncio.gather(*waiters)] == [1, 2, 3, 4]

    monkeypatch.setattr("glbandits.serving.runtime.batch_writer.QUICK", 60.0)
    run(main())
    assert store.by_thread == ["a"]
    assert store.at_once == ["b", "a", "c"]


def test_what_has_gathered_is_written_by_the_thread_if_it_must_wait_again(
    store: Watched, writer: BatchWriter, other: sqlite3.Connection
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


def test_after_a_slow_commit_the_thread_writes_until_one_of_its_own_is_quick(
    store: Watched, writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("glbandits.serving.runtime.batch_writer.QUICK", 0.0)
        for name in "abc":
            await writer.submit(decision(name))
        monkeypatch.setattr("glbandits.serving.runtime.batch_writer.QUICK", 60.0)
        for name in "de":
            await writer.submit(decision(name))

    run(main())
    assert store.at_once == ["a", "e"]
    assert store.by_thread == ["b", "c", "d"]


def test_a_reward_that_was_given_up_while_the_thread_was_busy_is_not_written(
    store: Watched, writer: BatchWriter, other: sqlite3.Connection
) -> None:
    async def main() -> None:
        await writer.submit(decision("a"))
        other.execute("BEGIN IMMEDIATE")
        first = writer.submit(decision("b"))
        await asyncio.sleep(0.01)
        withdrawn = writer.submit(reward("a"))
        await asyncio.sleep(0.01)
        assert writer.withdraw(withdrawn)
        again = writer.submit(reward("a"))
        await asyncio.sleep(0.01)
        other.execute("COMMIT")
        await asyncio.gather(first, again)
        with pytest.raises(TimeoutError):
            await withdrawn

    run(main())
    kept = store.decision("shop", "a")
    assert kept is not None
    assert len(kept.rewards) == 1
    assert writer.depth == 0


@pytest.mark.parametrize("change", [{"MOST_AT_ONCE": 0}, {"FULL": 1}])
def test_what_would_take_the_event_loop_long_is_for_the_thread(
    store: Watched, writer: BatchWriter, monkeypatch: pytest.MonkeyPatch, change: dict[str, int]
) -> None:
    async def main() -> None:
        await asyncio.gather(*(writer.submit(decision(name)) for name in "ab"))

    for name, value in change.items():
        monkeypatch.setattr(f"glbandits.serving.runtime.batch_writer.{name}", value)
    run(main())
    assert store.by_thread == ["a", "b"]


def test_an_event_loop_that_is_closed_while_it_is_to_be_told_is_survived(
    writer: BatchWriter, other: sqlite3.Connection
) -> None:
    async def leave() -> None:
        waiters = [writer.submit(decision("a"))]
        waiters[0].add_done_callback(lambda _: None)  # which a closed loop cannot call
        await asyncio.sleep(0.01)
        writer.submit(decision("b"))
        await asyncio.sleep(0.01)

    async def go_on() -> int:
        return (await writer.submit(decision("c"))).number

    other.execute("BEGIN IMMEDIATE")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    other.execute("COMMIT")
    assert run(go_on()) == 3
    wait_until(lambda: writer.depth == 0)


def test_an_error_is_for_the_thread_to_tell(store: Watched, writer: BatchWriter) -> None:
    async def main() -> None:
        kept, wrong = writer.submit(decision("a")), writer.submit(reward("a", value=float("nan")))
        assert (await kept).fate is Fate.KEPT
        with pytest.raises(Exception, match="a reward must be a finite number"):
            await wrong

    run(main())
    assert store.at_once == []
    assert store.by_thread.count("a") >= 2


def test_an_event_loop_that_ends_in_the_middle_of_a_turn_leaves_it_to_the_thread(
    store: Watched, writer: BatchWriter
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
