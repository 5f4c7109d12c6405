"""The batch writer: failures of the store, timeouts and cancellation."""

import asyncio
import logging
import time
from collections.abc import Sequence

import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Event, EventStatus, Receipt
from glbandits.service.runtime.batch_writer import BatchWriter, WriterState
from tests.service.helpers import activation, decision, reward, run
from tests.service.runtime.fake_store import SLOW, FakeStore, hold, until


def test_a_failing_store_refuses_rewards_and_retries_decisions(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        fake_store.failure = StoreError("the disk is full")
        decided, rewarded = writer.submit(decision("1"), SLOW), writer.submit(reward("1"), SLOW)
        with pytest.raises(StoreError, match="the disk is full"):
            await rewarded
        assert writer.state is WriterState.RETRYING
        for event in (reward("1"), activation("1")):
            with pytest.raises(StoreError, match="does not accept events at the moment"):
                writer.submit(event, SLOW)
        later = writer.submit(decision("2"), SLOW)
        await until(lambda: writer.counts.retried_batches >= 3)
        fake_store.failure = None
        await asyncio.gather(decided, later)
        await writer.submit(reward("1"), SLOW)
        assert fake_store.written == ["1", "2", "1"]
        assert (writer.counts.events, writer.counts.failed_events) == (3, 1)

    run(main())


def test_rewards_in_the_queue_are_refused_when_the_store_fails(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        await hold(fake_store, writer, decision("0"))
        waiting = writer.submit(reward("0"), SLOW)
        fake_store.failure = StoreError("the disk is full")
        fake_store.open.set()
        with pytest.raises(StoreError, match="Nothing was written"):
            await waiting
        fake_store.failure = None
        await until(lambda: writer.depth == 0)
        assert fake_store.written == ["0"]

    run(main())


def test_a_failure_is_logged_when_it_begins_and_ends(fake_store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        fake_store.failure = StoreError("the disk is full")
        decided = writer.submit(decision("1"), SLOW)
        await until(lambda: fake_store.attempts > 10)
        fake_store.failure = None
        await decided
        await writer.submit(decision("2"), SLOW)

    with caplog.at_level(logging.INFO):
        run(main())
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "the disk is full" in caplog.text
    assert "Traceback" not in caplog.text


def test_only_the_event_at_fault_fails(fake_store: FakeStore, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        good = [writer.submit(decision(str(i)), SLOW) for i in range(3)]
        invalid, poison = writer.submit(reward("0", value=-1.0), SLOW), writer.submit(decision("poison"), SLOW)
        good += [writer.submit(decision(str(i)), SLOW) for i in range(3, 8)]
        with pytest.raises(InvalidInput, match="must not be negative"):
            await invalid
        with pytest.raises(StoreError, match="cannot write the event: ZeroDivisionError"):
            await poison
        await asyncio.gather(*good)
        assert fake_store.written == [str(i) for i in range(8)]
        assert (writer.counts.events, writer.counts.failed_events, writer.problem(SLOW)) == (8, 1, None)

    run(main())
    assert "a bug" in caplog.text


def test_no_reward_is_written_before_its_retried_decision(fake_store: FakeStore) -> None:
    async def main() -> None:
        append, writer = fake_store.append, BatchWriter(fake_store)

        async def fail_alone(events: Sequence[Event]) -> list[Receipt]:
            if len(events) == 1 and fake_store.attempts == 1:
                fake_store.attempts += 1
                raise StoreError("the disk is full")
            return await append(events)

        fake_store.append = fail_alone  # type: ignore[method-assign]
        decided = writer.submit(decision("1"), SLOW)
        rewarded = writer.submit(reward("1", value=-1.0), SLOW)  # makes the writer split the batch
        with pytest.raises(StoreError):
            await rewarded
        await decided
        assert fake_store.written == ["1"]

    run(main())


def test_a_timed_out_decision_is_written_all_the_same(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        await hold(fake_store, writer, decision("0"))
        with pytest.raises(TimeoutError):
            await writer.submit(decision("1"), 0.005)
        fake_store.open.set()
        await until(lambda: writer.depth == 0)
        assert fake_store.written == ["0", "1"]

    run(main())


def test_timed_out_and_cancelled_rewards_are_not_written(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        await hold(fake_store, writer, decision("0"))
        cancelled, left = writer.submit(reward("2"), SLOW), writer.submit(reward("3"), SLOW)
        cancelled.cancel()
        with pytest.raises(TimeoutError):
            await writer.submit(reward("1"), 0.005)
        assert writer.depth == 2
        fake_store.open.set()
        await left
        assert fake_store.written == ["0", "3"]

    run(main())


def test_each_event_has_its_own_deadline(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        held = await hold(fake_store, writer, decision("held"))
        last, first, never = (
            writer.submit(reward(name), timeout) for name, timeout in (("a", 0.1), ("b", 0.01), ("c", SLOW))
        )
        assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], TimeoutError)
        assert not last.done()
        assert isinstance((await asyncio.gather(last, return_exceptions=True))[0], TimeoutError)
        fake_store.open.set()
        await asyncio.gather(held, never)
        assert fake_store.written == ["held", "c"]

    run(main())


def test_a_reward_whose_commit_began_waits_for_its_outcome(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        fake_store.open.clear()
        receipt = writer.submit(reward("1"), 0.005)
        await asyncio.sleep(0.05)
        assert not receipt.done()
        fake_store.open.set()
        assert (await receipt).status is EventStatus.ACCEPTED

    run(main())


def test_a_request_cancelled_during_its_commit_harms_nobody(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        first = await hold(fake_store, writer, reward("1"))
        second = writer.submit(decision("2"), SLOW)
        first.cancel()
        fake_store.open.set()
        await second
        assert fake_store.written == ["1", "2"]
        assert writer.counts.events == 2

    run(main())


def test_ten_thousand_rewards_that_expire_do_not_freeze(fake_store: FakeStore) -> None:
    async def main() -> float:
        writer = BatchWriter(fake_store, queue=10_001)
        await hold(fake_store, writer, decision("0"))
        receipts = [writer.submit(reward(str(i)), 0.05) for i in range(10_000)]
        began = time.process_time()
        outcomes = await asyncio.gather(*receipts, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {TimeoutError}
        assert writer.depth == 1
        fake_store.open.set()
        await writer.close()
        return time.process_time() - began

    assert run(main()) < 2.0  # about 0.2 s; removing each from a list took 10 s
    assert fake_store.written == ["0"]


def test_problems_are_reported_while_the_store_is_slow_or_fails(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        assert writer.problem(SLOW) is None
        receipt = await hold(fake_store, writer, decision("0"))
        await asyncio.sleep(0.02)
        assert writer.problem(SLOW) is None
        assert writer.problem(0.01) == "an event has waited to be written for more than 0.01 s"
        fake_store.failure = StoreError("the disk is full")
        fake_store.open.set()
        await until(lambda: writer.counts.retried_batches)
        assert writer.problem(SLOW) == "the last events could not be written"
        fake_store.failure = None
        await receipt
        assert writer.problem(SLOW) is None

    run(main())


def test_a_failure_is_no_problem_after_a_while(fake_store: FakeStore) -> None:
    async def main() -> None:
        writer = BatchWriter(fake_store)
        fake_store.failure = StoreError("the disk is full")
        with pytest.raises(StoreError):
            await writer.submit(reward("1"), SLOW)
        assert writer.problem(SLOW) is not None
        await asyncio.sleep(0.02)
        assert writer.problem(0.01) is None

    run(main())
