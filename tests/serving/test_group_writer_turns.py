"""Events that an event loop submits in one turn are handed to the writer at once, and none is lost."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from glbandits.serving.errors import QueueFull, StoreError
from glbandits.serving.events import Event, Fate, Receipt
from glbandits.serving.group_writer import GroupWriter
from glbandits.serving.sqlite_store import SqliteStore
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


async def submit(writer: GroupWriter, names: Sequence[str]) -> list[Receipt]:
    """All in one turn."""
    return list(await asyncio.gather(*(writer.submit(decision(name)) for name in names)))


@pytest.mark.parametrize("group", [3, 512])
def test_one_turn_is_one_group_however_large(store: Recording, group: int) -> None:
    writer = GroupWriter(store, group=group)
    receipts = run(submit(writer, [f"e{i}" for i in range(20)]))
    writer.close()
    assert [receipt.number for receipt in receipts] == list(range(1, 21))
    assert store.sizes == [20]


def test_those_of_a_turn_count_for_the_limit(store: Recording) -> None:
    writer = GroupWriter(store, queue=3)

    async def turn() -> list[Receipt]:
        waiters = [writer.submit(decision(f"e{i}")) for i in range(3)]
        with pytest.raises(QueueFull, match="3 events wait"):
            writer.submit(decision("e3"))
        return list(await asyncio.gather(*waiters))

    assert {receipt.fate for receipt in run(turn())} == {Fate.KEPT}
    writer.close()


def test_close_writes_those_of_a_turn_that_is_not_over(store: Recording) -> None:
    writer = GroupWriter(store)

    async def turn() -> None:
        waiter = writer.submit(decision("e1"))
        writer.close()
        assert store.decision("shop", "e1") is not None
        with pytest.raises(StoreError, match="shutting down"):
            writer.submit(decision("e2"))
        assert (await waiter).number == 1

    run(turn())


def test_a_group_gathers_for_a_while_after_one_that_had_company(store: Recording) -> None:
    async def main() -> None:
        await submit(writer, ["a", "b"])
        first = writer.submit(decision("c"))
        await asyncio.sleep(0.02)
        await asyncio.gather(first, writer.submit(decision("d")))

    writer = GroupWriter(store, linger=0.5)
    run(main())
    writer.close()
    assert store.sizes == [2, 2]


def test_one_after_another_each_is_written_at_once(store: Recording) -> None:
    async def main() -> float:
        began = time.monotonic()
        for name in "abc":
            await submit(writer, [name])
        return time.monotonic() - began

    writer = GroupWriter(store, linger=5.0)
    assert run(main()) < 4
    writer.close()
    assert store.sizes == [1, 1, 1]
