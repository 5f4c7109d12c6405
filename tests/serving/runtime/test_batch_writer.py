"""The batch writer: order, batches, limits, timeouts, cancellation, failures and shutdown."""

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from glbandits.errors import InvalidInput
from glbandits.serving.domain.errors import QueueFull, StoreError
from glbandits.serving.domain.events import Event, EventStatus, Receipt, Reward
from glbandits.serving.runtime import batch_writer
from glbandits.serving.runtime.batch_writer import BATCH_EVENTS, BatchWriter, WriterState
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.makers import activation, decision, reward, run

SLOW = 60.0
"""A timeout that no test reaches."""


class FakeStore:
    """Records its batches, blocks while it is held, and raises `failure` while one is set."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.began = asyncio.Event()
        self.attempts = 0
        self.failure: Exception | None = None

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        self.attempts += 1
        self.began.set()
        await self.open.wait()
        if self.failure is not None:
            raise self.failure
        for event in events:
            if isinstance(event, Reward) and event.value < 0:
                raise InvalidInput("value must not be negative")
            if event.event_id == "poison":
                raise ZeroDivisionError("a bug")
        self.batches.append([event.event_id for event in events])
        return [Receipt(EventStatus.ACCEPTED, len(self.batches))] * len(events)

    @property
    def written(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


@pytest.fixture(name="store")
def store_fixture(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    monkeypatch.setattr(batch_writer, "RETRY_SECONDS", 0.005)
    return FakeStore()


async def hold(store: FakeStore, writer: BatchWriter, event: Event) -> "asyncio.Future[Receipt]":
    """Submit an event, and return while its commit hangs."""
    store.open.clear()
    store.began.clear()
    receipt = writer.submit(event, SLOW)
    await store.began.wait()
    return receipt


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_waiting_events_are_one_batch_in_order(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        await hold(store, writer, decision("0"))
        receipts = [writer.submit(decision(str(i)), SLOW) for i in range(1, 6)]
        assert (writer.depth, writer.state) == (6, WriterState.WRITING)
        store.open.set()
        await asyncio.gather(*receipts)
        assert store.batches == [["0"], ["1", "2", "3", "4", "5"]]
        await until(lambda: writer.state is WriterState.IDLE)
        counts = writer.counts
        assert (writer.depth, counts.batches, counts.events, counts.refused, counts.failures) == (0, 2, 6, 0, 0)
        await writer.close()

    run(main())


def test_a_batch_collects_events_of_several_iterations(store: FakeStore) -> None:
    async def main() -> None:
        writer, receipts = BatchWriter(store), []
        for i in range(5):
            receipts.append(writer.submit(decision(str(i)), SLOW))
            await asyncio.sleep(0)
        await asyncio.gather(*receipts)
        assert store.batches == [["0", "1", "2", "3", "4"]]

    run(main())


def test_a_batch_is_written_though_events_keep_coming(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        first, sent = writer.submit(decision("first"), SLOW), 0
        while not first.done():
            writer.submit(decision(f"e{sent}"), SLOW)
            sent += 1
            await asyncio.sleep(0)
        assert 0 < sent <= 2 * BATCH_EVENTS
        await writer.close()

    run(main())


def test_large_queues_are_written_in_several_batches(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        names = [str(i) for i in range(2 * BATCH_EVENTS + 1)]
        await asyncio.gather(*(writer.submit(decision(name), SLOW) for name in names))
        assert [len(batch) for batch in store.batches] == [BATCH_EVENTS, BATCH_EVENTS, 1]
        assert store.written == names

    run(main())


def test_a_full_queue_refuses_events_and_keeps_the_others(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store, queue=3)
        await hold(store, writer, decision("0"))
        receipts = [writer.submit(decision(str(i)), SLOW) for i in (1, 2)]
        with pytest.raises(QueueFull, match=r"Write queue is full \(3 events\)\. Retry later\."):
            writer.submit(reward("3"), SLOW)
        store.open.set()
        await asyncio.gather(*receipts)
        await writer.submit(decision("3"), SLOW)
        assert store.written == ["0", "1", "2", "3"]

    run(main())


def test_large_decisions_fill_the_queue_by_their_bytes(store: FakeStore) -> None:
    def submit(writer: BatchWriter, name: str) -> "asyncio.Future[Receipt]":
        return writer.submit(decision(name, request=bytes(600), actions=()), SLOW)

    async def main() -> None:
        writer = BatchWriter(store, queue_bytes=2_000)
        await hold(store, writer, reward("0"))
        receipts = [submit(writer, name) for name in "123"]
        with pytest.raises(QueueFull, match=r"Write queue is full \(2,000 bytes\)"):
            submit(writer, "4")
        receipts.append(writer.submit(reward("5"), SLOW))
        store.open.set()
        await asyncio.gather(*receipts)
        for name in "6789":
            await submit(writer, name)

    run(main())


def test_many_actions_fill_the_queue_by_their_bytes(store: FakeStore) -> None:
    async def main() -> None:
        with pytest.raises(QueueFull, match="10,000 bytes"):
            BatchWriter(store, queue_bytes=10_000).submit(decision("1", request=b"", actions=("a",) * 100), SLOW)

    run(main())


def test_the_first_pending_decision_of_a_name_is_found(store: FakeStore) -> None:
    async def main() -> None:
        writer, first = BatchWriter(store), decision("1", timestamp=1)
        await hold(store, writer, decision("0"))
        receipts = [writer.submit(first, SLOW), writer.submit(decision("1", timestamp=2), SLOW)]
        assert writer.pending_decision("shop", "1", "") is first
        assert writer.pending_decision("shop", "1", "slot") is None
        store.open.set()
        await asyncio.gather(*receipts)
        assert writer.pending_decision("shop", "1", "") is None

    run(main())


def test_a_failing_store_refuses_rewards_and_retries_decisions(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        store.failure = StoreError("the disk is full")
        decided, rewarded = writer.submit(decision("1"), SLOW), writer.submit(reward("1"), SLOW)
        with pytest.raises(StoreError, match="the disk is full"):
            await rewarded
        assert writer.state is WriterState.RETRYING
        for event in (reward("1"), activation("1")):
            with pytest.raises(StoreError, match="does not accept events at the moment"):
                writer.submit(event, SLOW)
        later = writer.submit(decision("2"), SLOW)
        await until(lambda: writer.counts.failures >= 3)
        store.failure = None
        await asyncio.gather(decided, later)
        await writer.submit(reward("1"), SLOW)
        assert store.written == ["1", "2", "1"]
        assert (writer.counts.events, writer.counts.refused) == (3, 1)

    run(main())


def test_rewards_in_the_queue_are_refused_when_the_store_fails(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        await hold(store, writer, decision("0"))
        waiting = writer.submit(reward("0"), SLOW)
        store.failure = StoreError("the disk is full")
        store.open.set()
        with pytest.raises(StoreError, match="Nothing was written"):
            await waiting
        store.failure = None
        await until(lambda: writer.depth == 0)
        assert store.written == ["0"]

    run(main())


def test_a_failure_is_logged_when_it_begins_and_ends(store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        store.failure = StoreError("the disk is full")
        decided = writer.submit(decision("1"), SLOW)
        await until(lambda: store.attempts > 10)
        store.failure = None
        await decided
        await writer.submit(decision("2"), SLOW)

    with caplog.at_level(logging.INFO):
        run(main())
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "the disk is full" in caplog.text
    assert "Traceback" not in caplog.text


def test_only_the_event_at_fault_fails(store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        good = [writer.submit(decision(str(i)), SLOW) for i in range(3)]
        invalid, poison = writer.submit(reward("0", value=-1.0), SLOW), writer.submit(decision("poison"), SLOW)
        good += [writer.submit(decision(str(i)), SLOW) for i in range(3, 8)]
        with pytest.raises(InvalidInput, match="must not be negative"):
            await invalid
        with pytest.raises(StoreError, match="cannot write the event: ZeroDivisionError"):
            await poison
        await asyncio.gather(*good)
        assert store.written == [str(i) for i in range(8)]
        assert (writer.counts.events, writer.counts.refused, writer.problem(SLOW)) == (8, 2, None)

    run(main())
    assert "a bug" in caplog.text


def test_no_reward_is_written_before_its_retried_decision(store: FakeStore) -> None:
    async def main() -> None:
        append, writer = store.append, BatchWriter(store)

        async def fail_alone(events: Sequence[Event]) -> list[Receipt]:
            if len(events) == 1 and store.attempts == 1:
                store.attempts += 1
                raise StoreError("the disk is full")
            return await append(events)

        store.append = fail_alone  # type: ignore[method-assign]
        decided = writer.submit(decision("1"), SLOW)
        rewarded = writer.submit(reward("1", value=-1.0), SLOW)  # makes the writer split the batch
        with pytest.raises(StoreError):
            await rewarded
        await decided
        assert store.written == ["1"]

    run(main())


def test_a_timed_out_decision_is_written_all_the_same(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        await hold(store, writer, decision("0"))
        with pytest.raises(TimeoutError):
            await writer.submit(decision("1"), 0.005)
        store.open.set()
        await until(lambda: writer.depth == 0)
        assert store.written == ["0", "1"]

    run(main())


def test_timed_out_and_cancelled_rewards_are_not_written(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        await hold(store, writer, decision("0"))
        cancelled, left = writer.submit(reward("2"), SLOW), writer.submit(reward("3"), SLOW)
        cancelled.cancel()
        with pytest.raises(TimeoutError):
            await writer.submit(reward("1"), 0.005)
        assert writer.depth == 2
        store.open.set()
        await left
        assert store.written == ["0", "3"]

    run(main())


def test_a_reward_whose_commit_began_waits_for_its_outcome(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        store.open.clear()
        receipt = writer.submit(reward("1"), 0.005)
        await asyncio.sleep(0.05)
        assert not receipt.done()
        store.open.set()
        assert (await receipt).status is EventStatus.ACCEPTED

    run(main())


def test_a_request_cancelled_during_its_commit_harms_nobody(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        first = await hold(store, writer, reward("1"))
        second = writer.submit(decision("2"), SLOW)
        first.cancel()
        store.open.set()
        await second
        assert store.written == ["1", "2"]
        assert writer.counts.events == 2

    run(main())


def test_ten_thousand_rewards_that_expire_do_not_freeze(store: FakeStore) -> None:
    async def main() -> float:
        writer = BatchWriter(store, queue=10_001)
        await hold(store, writer, decision("0"))
        receipts = [writer.submit(reward(str(i)), 0.05) for i in range(10_000)]
        began = time.process_time()
        outcomes = await asyncio.gather(*receipts, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {TimeoutError}
        assert writer.depth == 1
        store.open.set()
        await writer.close()
        return time.process_time() - began

    assert run(main()) < 2.0  # about 0.2 s; removing each from a list took 10 s
    assert store.written == ["0"]


def test_problems_are_reported_while_the_store_is_slow_or_fails(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        assert writer.problem(SLOW) is None
        receipt = await hold(store, writer, decision("0"))
        await asyncio.sleep(0.02)
        assert writer.problem(SLOW) is None
        assert writer.problem(0.01) == "an event has waited to be written for more than 0.01 s"
        store.failure = StoreError("the disk is full")
        store.open.set()
        await until(lambda: writer.counts.failures)
        assert writer.problem(SLOW) == "the last events could not be written"
        store.failure = None
        await receipt
        assert writer.problem(SLOW) is None

    run(main())


def test_a_failure_is_no_problem_after_a_while(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        store.failure = StoreError("the disk is full")
        with pytest.raises(StoreError):
            await writer.submit(reward("1"), SLOW)
        assert writer.problem(SLOW) is not None
        await asyncio.sleep(0.02)
        assert writer.problem(0.01) is None

    run(main())


def test_close_writes_the_queue_and_refuses_more(store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        receipts = [writer.submit(decision(str(i)), SLOW) for i in range(2 * BATCH_EVENTS)]
        await writer.close()
        assert all(receipt.done() for receipt in receipts)
        assert len(store.written) == 2 * BATCH_EVENTS
        with pytest.raises(StoreError, match="shutting down"):
            writer.submit(decision("late"), SLOW)
        await writer.close()
        assert writer.state is WriterState.CLOSED

    run(main())


def test_close_of_an_unused_writer(store: FakeStore) -> None:
    run(BatchWriter(store).close())


def test_close_gives_up_on_a_failing_store(store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        store.failure = StoreError("the disk is full")
        receipt = writer.submit(decision("1"), SLOW)
        await until(lambda: writer.state is WriterState.RETRYING)
        await writer.close()
        with pytest.raises(StoreError, match="the disk is full"):
            await receipt

    run(main())
    assert "decision 1 of loop shop is not written: the disk is full" in caplog.text


def test_close_gives_up_on_a_hanging_store(
    store: FakeStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        writer = BatchWriter(store)
        begun = await hold(store, writer, decision("1"))
        waiting = writer.submit(reward("1"), SLOW)
        await writer.close()
        with pytest.raises(StoreError, match="may or may not be written"):
            await begun
        with pytest.raises(StoreError, match="shutting down"):
            await waiting
        assert (writer.depth, writer.state) == (0, WriterState.CLOSED)

    monkeypatch.setattr(batch_writer, "CLOSE_SECONDS", 0.05)
    run(main())
    assert "2 events are not known to be written" in caplog.text


def test_a_writer_goes_on_in_another_event_loop(tmp_path: Path) -> None:
    async def send(name: str) -> int:
        return (await writer.submit(decision(name), SLOW)).sequence

    store = SqliteStore(tmp_path / "events.db")
    writer = BatchWriter(store)
    assert [run(send(name)) for name in "abc"] == [1, 2, 3]
    run(writer.close())
    store.close()


def test_an_event_loop_that_ends_logs_what_it_leaves(store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def leave() -> None:
        await hold(store, writer, decision("1"))

    async def go_on() -> None:
        store.open = asyncio.Event()
        store.open.set()
        await writer.submit(decision("2"), SLOW)

    writer = BatchWriter(store)
    run(leave())
    assert "1 events are not known to be written" in caplog.text
    run(go_on())
    assert store.written == ["2"]


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
def test_limits_of_the_queue_are_validated(store: FakeStore, limit: str) -> None:
    with pytest.raises(InvalidInput, match=f"{limit} must be"):
        BatchWriter(store, **{limit: 0})
