"""Events that an event loop submits in one turn are handed to the writer at once, and none is lost."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from glbandits.serving.errors import QueueFull, StoreError
from glbandits.serving.events import Event, Fate, Receipt
from glbandits.serving.group_writer import GroupWriter
from glbandits.serving.sqlite_store import SqliteStore
from tests.serving.makers import decision


class Recording(SqliteStore):
    """Knows the sizes of its groups."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sizes: list[int] = []

    def append(self, events: Sequence[Event]) -> list[Receipt]:
        self.sizes.append(len(events))
        return super().append(events)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Recording]:
    store = Recording(tmp_path / "events.db")
    yield store
    store.close()


def test_one_turn_is_one_group(store: Recording) -> None:
    writer = GroupWriter(store)

    async def turn() -> list[Receipt]:
        return list(await asyncio.gather(*(writer.submit_async(decision(f"e{i}")) for i in range(20))))

    receipts = asyncio.run(turn())
    writer.close()
    assert [receipt.number for receipt in receipts] == list(range(1, 21))
    assert store.sizes == [20]


def test_those_of_a_turn_count_for_the_limit(store: Recording) -> None:
    writer = GroupWriter(store, queue=3)

    async def turn() -> list[Receipt]:
        waiters = [writer.submit_async(decision(f"e{i}")) for i in range(3)]
        with pytest.raises(QueueFull, match="3 events wait"):
            writer.submit_async(decision("e3"))
        return list(await asyncio.gather(*waiters))

    assert {receipt.fate for receipt in asyncio.run(turn())} == {Fate.KEPT}
    writer.close()


def test_flush_and_close_write_those_of_a_turn_that_is_not_over(store: Recording) -> None:
    writer = GroupWriter(store)

    async def turn() -> None:
        first = writer.submit_async(decision("e1"))
        writer.flush()
        assert store.decision("shop", "e1") is not None
        second = writer.submit_async(decision("e2"))
        writer.close()
        with pytest.raises(StoreError, match="shutting down"):
            writer.submit_async(decision("e3"))
        assert [(await waiter).number for waiter in (first, second)] == [1, 2]

    asyncio.run(turn())
