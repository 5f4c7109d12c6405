"""The batch writer: closing, and a change of the event loop."""

import asyncio
from pathlib import Path

import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.runtime import batch_writer
from glbandits.service.runtime.batch_writer import BATCH_EVENTS, BatchWriter, WriterState
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision, reward, run
from tests.service.runtime.fake_store import SLOW, FakeStore, hold, until


def test_close_writes_the_queue_and_refuses_more(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        receipts = [writer.submit(decision(str(i)), SLOW) for i in range(2 * BATCH_EVENTS)]
        await writer.close()
        assert all(receipt.done() for receipt in receipts)
        assert len(fake_store.written) == 2 * BATCH_EVENTS
        with pytest.raises(StoreError, match="shutting down"):
            writer.submit(decision("late"), SLOW)
        await writer.close()
        assert writer.state is WriterState.CLOSED

    run(main())


def test_close_of_an_unused_writer(fake_store: FakeStore) -> None:
    run(BatchWriter(fake_store).close())


def test_close_gives_up_on_a_failing_store(fake_store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        fake_store.failure = StoreError("the disk is full")
        degraded = writer.submit(decision("1"), 0.001)
        with pytest.raises(TimeoutError):
            await degraded
        waiting = writer.submit(decision("2"), SLOW)
        await until(lambda: writer.state is WriterState.RETRYING)
        await writer.close()
        with pytest.raises(StoreError, match="the disk is full"):
            await waiting
        assert writer.counts.lost_decisions == 1

    run(main())
    assert "1 decisions are lost" in caplog.text


def test_close_gives_up_on_a_hanging_store(
    fake_store: FakeStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        begun = await hold(fake_store, writer, decision("1"))
        waiting = writer.submit(reward("1"), SLOW)
        await writer.close()
        with pytest.raises(StoreError, match="may or may not be written"):
            await begun
        with pytest.raises(StoreError, match="shutting down"):
            await waiting
        assert (writer.depth, writer.state) == (0, WriterState.CLOSED)

    monkeypatch.setattr(batch_writer, "CLOSE_SECONDS", 0.05)
    run(main())
    assert "unknown whether 2 events were written" in caplog.text


def test_a_writer_works_in_another_event_loop(tmp_path: Path) -> None:
    async def send(name: str) -> int:
        return (await writer.submit(decision(name), SLOW)).sequence

    store = SqliteStore(tmp_path / "events.db")
    writer = BatchWriter(store)
    assert [run(send(name)) for name in "abc"] == [1, 2, 3]
    run(writer.close())
    store.close()


def test_an_ended_event_loop_logs_lost_events(fake_store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        await hold(fake_store, writer, decision("1"))

    async def go_on() -> None:
        fake_store.open = asyncio.Event()
        fake_store.open.set()
        await writer.submit(decision("2"), SLOW)

    writer = BatchWriter(fake_store)
    run(leave())
    assert "unknown whether 1 events were written" in caplog.text
    run(go_on())
    assert fake_store.written == ["2"]
