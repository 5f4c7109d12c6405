"""The batch writer: order, batches, and limits of the queue."""

import asyncio
from pathlib import Path

import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import QueueFull
from glbandits.service.domain.events import Receipt
from glbandits.service.runtime.batch_writer import BATCH_EVENTS, BatchWriter, WriterState
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision, decisions_of_slots, reward, run
from tests.service.runtime.fake_store import SLOW, FakeStore, hold, until


def test_waiting_events_are_one_batch_in_order(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        await hold(fake_store, writer, decision("0"))
        receipts = [writer.submit(decision(str(i)), SLOW) for i in range(1, 6)]
        assert (writer.depth, writer.state) == (6, WriterState.WRITING)
        fake_store.open.set()
        await asyncio.gather(*receipts)
        assert fake_store.batches == [["0"], ["1", "2", "3", "4", "5"]]
        await until(lambda: writer.state is WriterState.IDLE)
        counts = writer.counts
        assert (writer.depth, counts.batches, counts.events) == (0, 2, 6)
        assert (counts.failed_events, counts.retried_batches) == (0, 0)
        await writer.close()

    run(main())


def test_a_batch_collects_events_of_several_iterations(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer, receipts = BatchWriter(fake_store), []
        for i in range(5):
            receipts.append(writer.submit(decision(str(i)), SLOW))
            await asyncio.sleep(0)
        await asyncio.gather(*receipts)
        assert fake_store.batches == [["0", "1", "2", "3", "4"]]

    run(main())


def test_a_batch_is_written_though_events_keep_coming(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        first, sent = writer.submit(decision("first"), SLOW), 0
        while not first.done():
            writer.submit(decision(f"e{sent}"), SLOW)
            sent += 1
            await asyncio.sleep(0)
        assert 0 < sent <= 2 * BATCH_EVENTS
        await writer.close()

    run(main())


def test_large_queues_are_written_in_several_batches(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        names = [str(i) for i in range(2 * BATCH_EVENTS + 1)]
        await asyncio.gather(*(writer.submit(decision(name), SLOW) for name in names))
        assert [len(batch) for batch in fake_store.batches] == [BATCH_EVENTS, BATCH_EVENTS, 1]
        assert fake_store.written == names

    run(main())


def test_all_slots_of_an_event_are_in_one_batch(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store, queue=BATCH_EVENTS + 3)
        receipts = [writer.submit(decision(str(i)), SLOW) for i in range(BATCH_EVENTS - 1)]
        receipts += writer.submit_slots(decisions_of_slots("ranking", "012"))
        receipts.append(writer.submit(decision("last"), SLOW))
        with pytest.raises(QueueFull):
            writer.submit_slots(decisions_of_slots("other", "01"))
        await asyncio.gather(*receipts)
        assert [len(batch) for batch in fake_store.batches] == [BATCH_EVENTS + 2, 1]

    run(main())


def test_a_full_queue_refuses_events_and_keeps_the_others(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store, queue=3)
        await hold(fake_store, writer, decision("0"))
        receipts = [writer.submit(decision(str(i)), SLOW) for i in (1, 2)]
        with pytest.raises(QueueFull, match=r"Write queue is full \(3 events\)\. Retry"):
            writer.submit(reward("3"), SLOW)
        fake_store.open.set()
        await asyncio.gather(*receipts)
        await writer.submit(decision("3"), SLOW)
        assert fake_store.written == ["0", "1", "2", "3"]

    run(main())


def test_large_decisions_fill_the_queue_by_their_bytes(fake_store: FakeStore) -> None:
    def submit(writer: BatchWriter, name: str) -> "asyncio.Future[Receipt]":
        return writer.submit(decision(name, request=bytes(600), actions=()), SLOW)

    async def main() -> None:
        writer = BatchWriter(fake_store, queue_bytes=2_000)
        await hold(fake_store, writer, reward("0"))
        receipts = [submit(writer, name) for name in "123"]
        with pytest.raises(QueueFull, match=r"Write queue is full \(2,000 bytes\)"):
            submit(writer, "4")
        receipts.append(writer.submit(reward("5"), SLOW))
        fake_store.open.set()
        await asyncio.gather(*receipts)
        for name in "6789":
            await submit(writer, name)

    run(main())


def test_many_actions_fill_the_queue_by_their_bytes(fake_store: FakeStore) -> None:
    async def main() -> None:
        with pytest.raises(QueueFull, match="10,000 bytes"):
            BatchWriter(fake_store, queue_bytes=10_000).submit(decision("1", request=b"", actions=("a",) * 100), SLOW)

    run(main())


def test_the_first_pending_decision_of_a_name_is_found(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer, first = BatchWriter(fake_store), decision("1", timestamp=1)
        await hold(fake_store, writer, decision("0"))
        receipts = [writer.submit(first, SLOW), writer.submit(decision("1", timestamp=2), SLOW)]
        assert writer.pending_decision("shop", "1", "") is first
        assert writer.pending_decision("shop", "1", "slot") is None
        fake_store.open.set()
        await asyncio.gather(*receipts)
        assert writer.pending_decision("shop", "1", "") is None

    run(main())


def test_each_task_gets_its_own_receipts(tmp_path: Path) -> None:
    async def send(worker: int) -> list[tuple[str, int]]:
        names = [f"{worker}-{i}" for i in range(50)]
        return [(name, (await writer.submit(decision(name), SLOW)).sequence) for name in names]

    async def main() -> dict[str, int]:
        pairs = await asyncio.gather(*map(send, range(8)))
        await writer.close()
        return dict(pair for some in pairs for pair in some)

    store = SqliteStore(tmp_path / "events.db")
    writer = BatchWriter(store)
    receipts = run(main())
    assert sorted(receipts.values()) == list(range(1, 401))
    assert {each.decision.event_id: each.sequence for each in store.search("shop", "", 1000)} == receipts
    store.close()


@pytest.mark.parametrize("limit", ["queue", "queue_bytes"])
def test_limits_of_the_queue_are_validated(fake_store: FakeStore, limit: str) -> None:
    with pytest.raises(InvalidInput, match=f"{limit} must be"):
        BatchWriter(fake_store, **{limit: 0})
