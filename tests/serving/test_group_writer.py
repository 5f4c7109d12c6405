import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from glbandits.errors import InvalidInput
from glbandits.serving.errors import QueueFull, StoreError
from glbandits.serving.events import Event, Fate, Receipt
from glbandits.serving.group_writer import GroupWriter
from glbandits.serving.sqlite_store import SqliteStore
from tests.serving.makers import activation, decision, reward


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


@pytest.fixture(name="recorder")
def recorder_fixture() -> Recorder:
    return Recorder()


@pytest.fixture(name="make")
def make_fixture(recorder: Recorder) -> Iterator[Callable[..., GroupWriter]]:
    made: list[GroupWriter] = []

    def make(**settings: Any) -> GroupWriter:
        made.append(GroupWriter(recorder, **settings))
        return made[-1]

    yield make
    recorder.may_go.set()
    for writer in made:
        writer.close()


def hold(recorder: Recorder, writer: GroupWriter) -> None:
    """Have event 0 written, and stop in the middle of it."""
    recorder.may_go.clear()
    recorder.began.clear()
    writer.submit(decision("0"))
    assert recorder.began.wait(10)


def test_what_waits_is_written_together_and_in_order(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    writer = make(group=3)
    hold(recorder, writer)
    futures = [writer.submit(decision(str(i))) for i in range(1, 6)]
    assert writer.depth == 5
    assert not any(future.done() for future in futures)
    recorder.may_go.set()
    assert [future.result(10).number for future in futures] == [1, 2, 3, 4, 5]
    assert recorder.groups == [["0"], ["1", "2", "3"], ["4", "5"]]
    writer.flush()
    counts = writer.counts
    assert (counts.groups, counts.events, counts.refused, counts.largest) == (3, 6, 0, 3)
    assert counts.seconds > 0


def test_a_full_queue_refuses_at_once_and_keeps_the_rest(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    writer = make(queue=2)
    hold(recorder, writer)
    kept = [writer.submit(decision(str(i))) for i in (1, 2)]
    with pytest.raises(QueueFull, match="2 events wait to be written, as many as may; send it again later"):
        writer.submit(decision("3"))
    recorder.may_go.set()
    assert [future.result(10).number for future in kept] == [1, 2]
    assert writer.submit(decision("3")).result(10).number == 3


def test_large_decisions_fill_the_queue_sooner(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    async def submit(name: str) -> Receipt:
        return await writer.submit_async(decision(name, request=bytes(600), actions=()))

    writer = make(queue_bytes=2_000)
    hold(recorder, writer)
    kept = [writer.submit(decision(str(i), request=bytes(600), actions=())) for i in (1, 2)]
    text = "decisions of 1,614 bytes wait to be written, and 2,000 may; send it again later"
    with pytest.raises(QueueFull, match=text):
        writer.submit(decision("3", request=bytes(600), actions=()))
    with pytest.raises(QueueFull, match=text):
        asyncio.run(submit("3"))
    kept.append(writer.submit(reward("4")))  # small ones have room
    recorder.may_go.set()
    assert [future.result(10).number for future in kept] == [1, 2, 4]
    for name in ("5", "6", "7", "8"):
        assert asyncio.run(submit(name)).number == int(name)


def test_many_actions_fill_the_queue_sooner(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    writer = make(queue_bytes=10_000)
    hold(recorder, writer)
    with pytest.raises(QueueFull, match="and 10,000 may"):
        writer.submit(decision("1", request=b"", actions=("a",) * 100))


def test_when_the_store_fails_rewards_hear_it_and_decisions_are_tried_again(
    recorder: Recorder, make: Callable[..., GroupWriter]
) -> None:
    writer = make()
    hold(recorder, writer)
    decisions = [writer.submit(decision(str(i))) for i in (1, 2)]
    refused = [writer.submit(reward("1")), writer.submit(activation("2"))]
    recorder.failure = StoreError("the disk is full")
    recorder.may_go.set()
    # Event 0 is tried again, and those behind it wait for their turn.
    assert recorder.failed.wait(10)
    assert not any(future.done() for future in [*decisions, *refused])
    recorder.fail_after(1)
    for future in refused:
        with pytest.raises(StoreError, match="the disk is full"):
            future.result(10)
    assert recorder.groups == [["0"]]
    recorder.failure = None
    assert [future.result(10).number for future in decisions] == [1, 2]
    assert recorder.groups == [["0"], ["1", "2"]]
    writer.flush()
    assert (writer.counts.events, writer.counts.refused) == (3, 2)


def test_a_decision_that_nobody_waits_for_outlives_a_failure_of_the_store(
    recorder: Recorder, make: Callable[..., GroupWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(writer: GroupWriter) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.submit_async(decision("1")), 0.01)

    monkeypatch.setattr("glbandits.serving.group_writer.AGAIN", 0.01)
    writer = make()
    recorder.failure = StoreError("the database is locked")
    asyncio.run(leave(writer))
    assert recorder.failed.wait(10)
    recorder.failure = None
    writer.flush()
    assert recorder.groups == [["1"]]


def test_a_writer_that_is_closed_gives_up_and_says_what_was_lost(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    writer = GroupWriter(recorder)
    recorder.failure = StoreError("the disk is full")
    future = writer.submit(decision("1"))
    assert recorder.failed.wait(10)
    writer.close()
    with pytest.raises(StoreError, match="the disk is full"):
        future.result(10)
    assert "1 decisions could not be written" in caplog.text


def test_an_error_that_nobody_foresaw_is_not_tried_again(
    recorder: Recorder, make: Callable[..., GroupWriter], caplog: pytest.LogCaptureFixture
) -> None:
    writer = make()
    recorder.failure = ZeroDivisionError("a mistake")
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        writer.submit(decision("1")).result(10)
    assert "the store failed to write 1 events" in caplog.text
    recorder.failure = None
    assert writer.submit(decision("2")).result(10).number == 2


def test_trouble_is_told_while_the_store_is_slow_or_fails(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    writer = make()
    assert writer.trouble(60) is None
    hold(recorder, writer)
    assert writer.trouble(60) is None
    time.sleep(0.02)
    assert writer.trouble(0.01) == "an event has waited to be written for more than 0.01 s"
    recorder.failure = StoreError("the disk is full")
    recorder.may_go.set()
    assert recorder.failed.wait(10)
    recorder.failed.clear()
    assert recorder.failed.wait(10)  # the second time: the writer has heard of the first
    assert writer.trouble(60) == "the last events could not be written"
    recorder.failure = None
    writer.flush()
    assert writer.trouble(0.0) is None
    assert writer.trouble(60) is None


def test_a_failure_is_forgotten_because_nothing_might_come_to_show_that_it_is_over(
    recorder: Recorder, make: Callable[..., GroupWriter]
) -> None:
    writer = make()
    recorder.failure = StoreError("the disk is full")
    with pytest.raises(StoreError):
        writer.submit(reward("1")).result(10)
    writer.flush()
    assert writer.trouble(60) is not None
    time.sleep(0.02)
    assert writer.trouble(0.01) is None


def test_one_wrong_event_does_not_harm_its_group(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "events.db")
    blocked, may_go = threading.Event(), threading.Event()

    def observe(size: int, seconds: float) -> None:
        assert (size, seconds > 0) in {(1, True), (8, True)}
        blocked.set()
        may_go.wait(10)

    writer = GroupWriter(store, observe=observe)
    first = writer.submit(decision("first"))
    assert blocked.wait(10)
    futures = [writer.submit(decision(str(i))) for i in range(3)]
    wrong = writer.submit(reward("0", value=float("inf")))
    futures += [writer.submit(decision(str(i))) for i in range(3, 7)]
    may_go.set()
    with pytest.raises(InvalidInput, match="a reward must be a finite number"):
        wrong.result(10)
    assert [future.result(10).number for future in [first, *futures]] == list(range(1, 9))
    writer.close()
    store.close()


def test_close_writes_what_waits_and_refuses_more(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    writer = make(group=2)
    hold(recorder, writer)
    futures = [writer.submit(decision(str(i))) for i in range(1, 6)]
    closing = threading.Thread(target=writer.close)
    closing.start()
    recorder.may_go.set()
    closing.join(10)
    assert all(future.done() for future in futures)
    with pytest.raises(StoreError, match="the writer is closed"):
        writer.submit(decision("9"))
    writer.flush()
    writer.close()


def test_an_event_loop_is_woken_once_for_a_group(
    recorder: Recorder, make: Callable[..., GroupWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> list[Receipt]:
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def count(*called: Any) -> None:
            wakings.append(1)
            wake(*called)

        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        writer = make()
        hold(recorder, writer)
        futures = [writer.submit_async(decision(str(i))) for i in range(1, 101)]
        recorder.may_go.set()
        return await asyncio.gather(*futures)

    wakings: list[int] = []
    assert [receipt.number for receipt in asyncio.run(main())] == list(range(1, 101))
    assert len(wakings) == 1


def test_who_stops_waiting_loses_the_receipt_and_not_the_event(
    recorder: Recorder, make: Callable[..., GroupWriter]
) -> None:
    async def main(writer: GroupWriter) -> None:
        hold(recorder, writer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.submit_async(decision("1")), 0.01)
        left = writer.submit_async(decision("2"))
        recorder.may_go.set()
        assert (await left).number == 2
        recorder.may_go.clear()
        writer.submit_async(decision("3"))

    writer = make()
    asyncio.run(main(writer))
    # Its event loop is gone by now.
    recorder.may_go.set()
    writer.flush()
    assert [event for group in recorder.groups for event in group] == ["0", "1", "2", "3"]


def test_a_reward_that_nobody_waits_for_is_not_written(recorder: Recorder, make: Callable[..., GroupWriter]) -> None:
    async def main(writer: GroupWriter) -> None:
        hold(recorder, writer)
        left, withdrawn, cancelled = (writer.submit_async(reward(name)) for name in "123")
        assert writer.withdraw(withdrawn)
        cancelled.cancel()
        recorder.may_go.set()
        assert (await left).number == 1
        with pytest.raises(TimeoutError):
            await withdrawn

    writer = make()
    asyncio.run(main(writer))
    writer.flush()
    assert recorder.groups == [["0"], ["1"]]


def test_a_reward_whose_commit_has_begun_cannot_be_withdrawn(
    recorder: Recorder, make: Callable[..., GroupWriter]
) -> None:
    async def main(writer: GroupWriter) -> None:
        recorder.may_go.clear()
        waiter = writer.submit_async(reward("1"))
        await asyncio.to_thread(recorder.began.wait, 10)
        assert not writer.withdraw(waiter)
        recorder.may_go.set()
        assert (await waiter).number == 1

    asyncio.run(main(make()))


def test_a_failing_observer_does_not_stop_the_writer(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    def observe(size: int, seconds: float) -> None:
        raise ZeroDivisionError(size, seconds)

    writer = GroupWriter(recorder, observe=observe)
    with caplog.at_level(logging.ERROR):
        assert [writer.submit(decision(str(i))).result(10).number for i in (1, 2)] == [1, 2]
        writer.close()
    assert "the observer of the group writer failed" in caplog.text


def test_linger_gathers(recorder: Recorder) -> None:
    writer = GroupWriter(recorder, linger=0.5)
    futures = [writer.submit(decision(str(i))) for i in range(3)]
    assert [future.result(10).number for future in futures] == [0, 1, 2]
    assert recorder.groups == [["0", "1", "2"]]
    writer.close()


def test_from_many_threads_each_gets_its_own_receipt(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "events.db")
    writer = GroupWriter(store, group=16)

    def send(worker: int) -> list[tuple[str, int]]:
        names = [f"{worker}-{i}" for i in range(50)]
        return [(name, writer.submit(decision(name)).result(10).number) for name in names]

    with ThreadPoolExecutor(8) as pool:
        receipts = dict(pair for pairs in pool.map(send, range(8)) for pair in pairs)
    writer.close()
    assert sorted(receipts.values()) == list(range(1, 401))
    assert {each.decision.event_id: each.number for each in store.search("shop", "", 1000)} == receipts
    store.close()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"queue": 0}, "queue must be"),
        ({"queue_bytes": 0}, "queue_bytes must be"),
        ({"group": 0}, "group must be"),
        ({"linger": -1}, "linger"),
    ],
)
def test_wrong_settings(recorder: Recorder, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        GroupWriter(recorder, **settings)
