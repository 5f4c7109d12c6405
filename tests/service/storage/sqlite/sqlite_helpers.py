"""SQLite stores with events."""

from pathlib import Path

from glbandits.service.domain.events import EventStatus, Receipt
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import decision, reward


def numbers(receipts: list[Receipt]) -> list[int]:
    return [receipt.sequence for receipt in receipts]


def make(path: Path, events: int = 0) -> SqliteStore:
    store = SqliteStore(path)
    for i in range(events):
        store.append_blocking([decision(str(i)), reward(str(i))])
    return store


def decisions_in(path: Path) -> int:
    """The number of decisions in a store. Checks that the store is sound and has the first ones."""
    store = SqliteStore(path)
    assert store.check() == []
    page = [each.decision.event_id for each in reversed(store.search("shop", "", 1000))]
    assert page == [str(i) for i in range(len(page))]
    assert store.summary("shop").rewards[EventStatus.ACCEPTED] == len(page)
    assert [receipt.status for receipt in store.append_blocking([decision("next")])] == [EventStatus.ACCEPTED]
    store.close()
    return len(page)
