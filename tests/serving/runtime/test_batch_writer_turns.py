"""Events that an event loop submits in one turn are one group, and none is lost."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from glbandits.serving.runtime.write_batch import FULL

from glbandits.serving.domain.errors import QueueFull, StoreError
from glbandits.serving.domain.events import Event, Fate, Receipt
from glbandits.serving.runtime.batch_writer import BatchWriter
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.makers import decision, run


class Recording(SqliteStore):
    """Knows the sizes of its groups, which a thread writes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sizes: list[int] = []

    def append(self, events: Sequence[Event]) -> list[Receipt]:
        self.sizes.append(len(events))
        return super().append(events)

    def append_at_once(self, _: Sequence[Event]) -> None:
        """It takes its time."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Recording]:
    store = Recording(tmp_path / "events.db")
    yield store
    store.close()


async def submit(writer: BatchWriter, names: Sequence[str]) -> list[Receipt]:
    """All in one turn."""
    return list(await asyncio.gather(*(writer.submit(decision(name)) for name in names)))


def test_one_turn_is_one_group_however_large(store: Recording) -> None:
    writer = BatchWriter(store)
    receipts = run(submit(writer, [f"e{i}" for i in range(2 * FULL)]))
    writer.close()
    assert [receipt.number for receipt in receipts] == list(range(1, 2 * FULL + 1))
    assert store.sizes == [2 * FULL]


def test_a_turn_goes_on_while_each_round_of_the_event_loop_brings_more(store: Recording) -> None:
    async def main() -> list[Receipt]:
        waiters = []
        for round_ in range(5):
            waiters.append(writer.submit(decision(f"e{round_}")))
            await asyncio.sleep(0)
        return list(await asyncio.gather(*waiters))

    writer = BatchWriter(store)
    run(main())
    writer.close()
    assert store.sizes == [5]


def test_a_turn_ends_after_a_while_whatever_comes(store: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> int:
        first, others = writer.submit(decision("first")), 0
        while not first.done():
            writer.submit(decision(f"e{others}"))
            others += 1
            await asyncio.sleep(0)
        return others

    monkeypatch.setattr("glbandits.serving.runtime.write_batch.FULL", 2**60)
    writer = BatchWriter(store, queue=10**9, queue_bytes=10**12)
    assert run(main()) > 1
    writer.close()


def test_those_of_a_turn_count_for_the_limit(store: Recording) -> None:
    writer = BatchWriter(store, queue=3)

    async def turn() -> list[Receipt]:
        waiters = [writer.submit(decision(f"e{i}")) for i in range(3)]
        with pytest.raises(QueueFull, match="3 events wait"):
            writer.submit(decision("e3"))
        return list(await asyncio.gather(*waiters))

    assert {receipt.fate for receipt in run(turn())} == {Fate.KEPT}
    writer.close()


def test_close_writes_those_of_a_turn_that_is_not_over(store: Recording) -> None:
    writer = BatchWriter(store)

    async def turn() -> None:
        waiter = writer.submit(decision("e1"))
        writer.close()
        assert store.decision("shop", "e1") is not None
        with pytest.raises(StoreError, match="shutting down"):
            writer.submit(decision("e2"))
        assert (await waiter).number == 1

    run(turn())
