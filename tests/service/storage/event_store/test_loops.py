"""The contract of creating and deleting loops."""

from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace

from glbandits.service.domain.events import EventStatus
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY
from tests.service.helpers import decision, reward, statuses

BODIES = {IDENTITY: b"salt", "configuration": b"{}"}


def test_a_loop_is_created_once(store: EventStore, opened: Callable[[], EventStore]) -> None:
    with closing(opened()) as other:
        assert store.create_loop("shop", 1, BODIES)
        assert not other.create_loop("shop", 2, BODIES | {IDENTITY: b"another"})
        document = other.latest_document("shop", IDENTITY)
        assert document is not None
        assert document.body == b"salt"
        assert other.versions_of(IDENTITY) == {"shop": 1}


def test_a_loop_that_is_created_again_refuses_decisions_of_the_first_one(store: EventStore) -> None:
    store.create_loop("shop", 1, BODIES)
    assert statuses(store, decision("a"), reward("a")) == [EventStatus.ACCEPTED] * 2
    store.delete_loop("shop")
    assert store.versions_of(IDENTITY) == {}
    assert statuses(store, decision("b"), decision("c", loop="other")) == [EventStatus.UNKNOWN, EventStatus.ACCEPTED]
    assert store.create_loop("shop", 2, BODIES)
    created = store.versions_of(IDENTITY)["shop"]
    first = replace(decision("d"), learned_through=created - 1)
    assert statuses(store, first, replace(first, learned_through=created)) == [
        EventStatus.UNKNOWN,
        EventStatus.ACCEPTED,
    ]
    assert [logged.sequence > created for logged in store.search("shop", "", 10)] == [True]


@pytest.mark.parametrize("times", [1, 3])
def test_a_loop_without_events_is_another_one_when_created_again(store: EventStore, times: int) -> None:
    seen = set()
    for _ in range(times + 1):
        assert store.create_loop("shop", 1, BODIES)
        seen.add(store.versions_of(IDENTITY)["shop"])
        store.delete_loop("shop")
    assert len(seen) == times + 1


def test_remains_are_deleted_of_deleted_loops_only(store: EventStore, opened: Callable[[], EventStore]) -> None:
    store.create_loop("shop", 1, BODIES)
    store.append_blocking([decision("a", unit="u")])
    store.delete_remains("shop")
    assert store.decision("shop", "a") is not None
    with closing(opened()) as other:  # another server creates the loop, and decides, at the worst time
        last_event = store.last_event

        def then_create() -> int:
            last = last_event()
            other.delete_loop("shop")
            other.create_loop("shop", 2, BODIES)
            other.append_blocking([replace(decision("b"), learned_through=other.versions_of(IDENTITY)["shop"])])
            return last

        store.last_event = then_create  # type: ignore[method-assign]
        store.delete_remains("shop")
    assert store.decision("shop", "b") is not None
