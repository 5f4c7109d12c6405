import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from glbandits.serving.runtime.write_batch import Waiter

from glbandits.errors import InvalidInput
from glbandits.serving.domain.errors import QueueFull, StoreError
from glbandits.serving.domain.events import Event, Fate, Receipt
from glbandits.serving.runtime.batch_writer import BatchWriter
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.makers import activation, decision, reward, run, wait_until


class Recorder:
    """A store that notes its groups, waits while it is held, and fails when it is told to."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.may_go = threading.Event()
        self.began = threading.Event()
        self.failed = threading.Event()
        self.failure: Exception | None = None
        self._well = 0
        self.may_go.set()

    def fail_after(self, well: int) -> None:
        """Write so many groups well before the failure goes on."""
        self._well = well

    def append(self, events: Sequence[Event]) -> list[Receipt]:
        self.began.set()
        assert self.may_go.wait(10)
        if self.failure is not None and not self._well:
            self.failed.set()
            raise self.failure
        self._well = max(0, self._well - 1)
        self.groups.append([event.event_id for event in events])
        return [Receipt(Fate.KEPT, int(event.event_id)) for event in events]

    def append_at_once(self, _: Sequence[Event]) -> None:
        """It takes its time."""


Make = Callable[..., BatchWriter]


@pytest.fixture(name="recorder")
def recorder_fixture() -> Recorder:
    return Recorder()


@pytest.fixture(name="make")
def make_fixture(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr("glbandits.serving.runtime.batch_writer.AGAIN", 0.01)
    made: list[BatchWriter] = []

    def make(**settings: Any) -> BatchWriter:
        made.append(BatchWriter(recorder, **settings))
        return made[-1]

    yield make
    recorder.failure = None
    recorder.may_go.set()
    for writer in made:
        writer.close()


async def hold(recorder: Recorder, writer: BatchWriter) -> Waiter:
    """Have event 0 written, and stop in the middle of it."""
    recorder.may_go.clear()
    recorder.began.clear()
    waiter = writer.submit(decision("0"))
    assert await asyncio.to_thread(recorder.began.wait, 10)
    return waiter


async def submit_by_turns(writer: BatchWriter, events: Sequence[Event]) -> list[Waiter]:
    """Each in a turn of the event loop of its own."""
    waiters = []
    for event in events:
        waiters.append(writer.submit(event))
        await asyncio.sleep(0)
    return waiters


async def numbers(waiters: Sequence[Waiter]) -> list[int]:
    return [(await waiter).number for waiter in waiters]


def test_what_waits_is_written_together_and_in_order(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        waiters = await submit_by_turns(writer, [decision(str(i)) for i in range(1, 6)])
        assert writer.depth == 6
        assert not any(waiter.done() for waiter in waiters)
        recorder.may_go.set()
        assert await numbers(waiters) == [1, 2, 3, 4, 5]
        assert writer.depth == 0

    writer = make()
    run(main())
    assert recorder.groups == [["0"], ["1", "2", "3", "4", "5"]]
    counts = writer.counts
    assert (counts.groups, counts.events, counts.refused, counts.failures) == (2, 6, 0, 0)
    assert counts.seconds > 0


def test_a_full_queue_refuses_at_once_and_keeps_the_rest(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        kept = [await hold(recorder, writer), *(writer.submit(decision(str(i))) for i in (1, 2))]
        with pytest.raises(QueueFull, match="3 events wait to be written, as many as may; send it again later"):
            writer.submit(reward("3"))
        recorder.may_go.set()
        assert await numbers(kept) == [0, 1, 2]
        assert (await writer.submit(decision("3"))).number == 3

    writer = make(queue=3)
    run(main())
    assert [name for group in recorder.groups for name in group] == ["0", "1", "2", "3"]


def test_large_decisions_fill_the_queue_sooner(recorder: Recorder, make: Make) -> None:
    def submit(name: str) -> Waiter:
        return writer.submit(decision(name, request=bytes(600), actions=()))

    async def main() -> None:
        await hold(recorder, writer)
        kept = [submit("1"), submit("2")]
        text = "decisions of 1,614 bytes wait to be written, and 2,000 may; send it again later"
        with pytest.raises(QueueFull, match=text):
            submit("3")
        kept.append(writer.submit(reward("4")))  # small ones have room
        recorder.may_go.set()
        assert await numbers(kept) == [1, 2, 4]
        for name in ("5", "6", "7", "8"):
            assert (await submit(name)).number == int(name)

    writer = make(queue_bytes=2_000)
    run(main())


def test_many_actions_fill_the_queue_sooner(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        with pytest.raises(QueueFull, match="and 10,000 may"):
            writer.submit(decision("1", request=b"", actions=("a",) * 100))

    writer = make(queue_bytes=10_000)
    run(main())


def test_an_unwritten_decision_is_found_the_first_of_its_name_until_it_is_written(
    recorder: Recorder, make: Make
) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        first, again = decision("1", at=1), decision("1", at=2)
        waiters = [writer.submit(first), writer.submit(again)]
        await asyncio.sleep(0.01)
        assert writer.unwritten("shop", "1", "") is first
        assert writer.unwritten("shop", "1", "slot") is None
        recorder.may_go.set()
        await numbers(waiters)
        assert writer.unwritten("shop", "1", "") is None

    writer = make()
    run(main())


def test_when_the_store_fails_rewards_hear_it_and_decisions_are_tried_again(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        decisions = [writer.submit(decision(str(i))) for i in (1, 2)]
        refused = [writer.submit(reward("1")), writer.submit(activation("2"))]
        await asyncio.sleep(0)
        recorder.failure = StoreError("the disk is full")
        recorder.may_go.set()
        # Event 0 is tried again, and those behind it wait for their turn.
        assert await asyncio.to_thread(recorder.failed.wait, 10)
        assert not any(waiter.done() for waiter in [*decisions, *refused])
        recorder.fail_after(1)
        for waiter in refused:
            with pytest.raises(StoreError, match="the disk is full"):
                await waiter
        assert recorder.groups == [["0"]]
        assert writer.counts.failures >= 2  # of event 0, and of the group behind it
        recorder.failure = None
        assert await numbers(decisions) == [1, 2]

    writer = make()
    run(main())
    assert recorder.groups == [["0"], ["1", "2"]]
    assert (writer.counts.events, writer.counts.refused) == (3, 2)


def test_a_decision_that_nobody_waits_for_outlives_a_failure_of_the_store(recorder: Recorder, make: Make) -> None:
    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.submit(decision("1")), 0.01)

    writer = make()
    recorder.failure = StoreError("the database is locked")
    run(leave())
    assert recorder.failed.wait(10)
    recorder.failure = None
    wait_until(lambda: writer.counts.events == 1)
    assert recorder.groups == [["1"]]


def test_a_writer_that_is_closed_gives_up_and_says_what_was_lost(
    recorder: Recorder, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        waiter = writer.submit(decision("1"))
        assert await asyncio.to_thread(recorder.failed.wait, 10)
        writer.close()
        with pytest.raises(StoreError, match="the disk is full"):
            await waiter

    writer = make()
    recorder.failure = StoreError("the disk is full")
    run(main())
    assert "1 decisions could not be written" in caplog.text


def test_an_error_that_nobody_foresaw_is_not_tried_again(
    recorder: Recorder, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        recorder.failure = ZeroDivisionError("a mistake")
        with pytest.raises(ZeroDivisionError, match="a mistake"):
            await writer.submit(decision("1"))
        assert "the store failed to write 1 events" in caplog.text
        recorder.failure = None
        assert (await writer.submit(decision("2"))).number == 2

    writer = make()
    run(main())


def test_trouble_is_told_while_the_store_is_slow_or_fails(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        assert writer.trouble(60) is None
        waiter = await hold(recorder, writer)
        assert writer.trouble(60) is None
        await asyncio.sleep(0.02)
        assert writer.trouble(0.01) == "an event has waited to be written for more than 0.01 s"
        recorder.failure = StoreError("the disk is full")
        recorder.may_go.set()
        assert await asyncio.to_thread(recorder.failed.wait, 10)
        recorder.failed.clear()
        assert await asyncio.to_thread(recorder.failed.wait, 10)  # again: the writer has heard of the first time
        assert writer.trouble(60) == "the last events could not be written"
        recorder.failure = None
        await waiter

    writer = make()
    run(main())
    wait_until(lambda: writer.trouble(0.0) is None)
    assert writer.trouble(60) is None


def test_a_failure_is_forgotten_because_nothing_might_come_to_show_that_it_is_over(
    recorder: Recorder, make: Make
) -> None:
    async def main() -> None:
        with pytest.raises(StoreError):
            await writer.submit(reward("1"))
        assert writer.trouble(60) is not None
        time.sleep(0.02)
        assert writer.trouble(0.01) is None

    writer = make()
    recorder.failure = StoreError("the disk is full")
    run(main())


def test_one_wrong_event_does_not_harm_its_group(tmp_path: Path) -> None:
    async def main() -> None:
        waiters = [writer.submit(decision(str(i))) for i in range(3)]
        wrong = writer.submit(reward("0", value=float("inf")))
        waiters += [writer.submit(decision(str(i))) for i in range(3, 7)]
        with pytest.raises(InvalidInput, match="a reward must be a finite number"):
            await wrong
        assert await numbers(waiters) == list(range(1, 8))

    store = SqliteStore(tmp_path / "events.db")
    writer = BatchWriter(store)
    run(main())
    assert (writer.counts.groups, writer.counts.events, writer.counts.refused) == (1, 7, 1)
    assert writer.trouble(60) is None
    writer.close()
    store.close()


def test_close_writes_what_waits_and_refuses_more(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        waiters = await submit_by_turns(writer, [decision(str(i)) for i in range(1, 6)])
        release = threading.Timer(0.05, recorder.may_go.set)
        release.start()
        writer.close()
        assert [name for group in recorder.groups for name in group] == ["0", "1", "2", "3", "4", "5"]
        with pytest.raises(StoreError, match="the writer is closed"):
            writer.submit(decision("9"))
        assert await numbers(waiters) == [1, 2, 3, 4, 5]
        release.join()

    writer = make()
    run(main())
    writer.close()


def test_an_event_loop_is_woken_for_a_group_and_not_for_each_event(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def count(called: Any, *told: Any, **more: Any) -> Any:
            wakings.append(called)
            return wake(called, *told, **more)

        await hold(recorder, writer)
        waiters = await submit_by_turns(writer, [decision(str(i)) for i in range(1, 101)])
        loop.call_soon_threadsafe = count  # type: ignore[method-assign, assignment]
        recorder.may_go.set()
        assert await numbers(waiters) == list(range(1, 101))
        assert len(recorder.groups) == 2  # one of them is for event 0
        assert len(wakings) <= 4  # what became of the group, and that the thread is free

    wakings: list[Any] = []
    writer = make()
    run(main())


def test_who_stops_waiting_loses_the_receipt_and_not_the_event(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.submit(decision("1")), 0.01)
        left = writer.submit(decision("2"))
        recorder.may_go.set()
        assert (await left).number == 2
        recorder.may_go.clear()
        writer.submit(decision("3"))

    writer = make()
    run(main())
    # Its event loop is gone by now.
    recorder.may_go.set()
    wait_until(lambda: writer.counts.events == 4)
    assert [event for group in recorder.groups for event in group] == ["0", "1", "2", "3"]
    wait_until(lambda: writer.depth == 0)


def test_another_event_loop_takes_the_place_of_one_that_is_gone(recorder: Recorder, make: Make) -> None:
    async def leave() -> None:
        await hold(recorder, writer)
        writer.submit(decision("1"))

    async def go_on() -> None:
        waiter = writer.submit(decision("2"))
        recorder.may_go.set()
        assert (await waiter).number == 2

    writer = make()
    run(leave())
    run(go_on())
    assert [event for group in recorder.groups for event in group] == ["0", "1", "2"]


def test_what_an_event_loop_left_in_the_middle_of_a_turn_is_written_with_what_comes_next(
    recorder: Recorder, make: Make
) -> None:
    def leave() -> None:
        loop.stop()
        writer.submit(decision("1"))

    async def go_on() -> None:
        assert (await writer.submit(decision("2"))).number == 2

    writer, loop = make(), asyncio.new_event_loop()
    loop.call_soon(leave)
    loop.run_forever()
    loop.close()
    run(go_on())
    assert [event for group in recorder.groups for event in group] == ["1", "2"]


def test_a_reward_that_nobody_waits_for_is_not_written(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        await hold(recorder, writer)
        left, withdrawn, cancelled = (writer.submit(reward(name)) for name in "123")
        await asyncio.sleep(0)
        assert writer.withdraw(withdrawn)
        cancelled.cancel()
        recorder.may_go.set()
        assert (await left).number == 1
        with pytest.raises(TimeoutError):
            await withdrawn
        assert writer.depth == 0

    writer = make()
    run(main())
    assert recorder.groups == [["0"], ["1"]]


def test_a_reward_whose_commit_has_begun_cannot_be_withdrawn(recorder: Recorder, make: Make) -> None:
    async def main() -> None:
        recorder.may_go.clear()
        waiter = writer.submit(reward("1"))
        assert await asyncio.to_thread(recorder.began.wait, 10)
        assert not writer.withdraw(waiter)
        recorder.may_go.set()
        assert (await waiter).number == 1

    writer = make()
    run(main())


def test_each_task_gets_its_own_receipts(tmp_path: Path) -> None:
    async def send(worker: int) -> list[tuple[str, int]]:
        names = [f"{worker}-{i}" for i in range(50)]
        return [(name, (await writer.submit(decision(name))).number) for name in names]

    async def main() -> dict[str, int]:
        return dict(pair for pairs in await asyncio.gather(*map(send, range(8))) for pair in pairs)

    store = SqliteStore(tmp_path / "events.db")
    writer = BatchWriter(store)
    receipts = run(main())
    writer.close()
    assert sorted(receipts.values()) == list(range(1, 401))
    assert {each.decision.event_id: each.number for each in store.search("shop", "", 1000)} == receipts
    store.close()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"queue": 0}, "queue must be"),
        ({"queue_bytes": 0}, "queue_bytes must be"),
    ],
)
def test_wrong_settings(recorder: Recorder, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        BatchWriter(recorder, **settings)
