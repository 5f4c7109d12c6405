"""The contract of stores: sets of actions that come again are in the log once, and every reader gets them."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Decision
from glbandits.service.domain.request_features import encode_json_request
from glbandits.service.storage.action_sets import SHARED_BYTES
from glbandits.service.storage.event_store import EventStore
from tests.service.helpers import WAIT, decision, decisions_of_slots

LARGE = bytes(range(256)) * (SHARED_BYTES // 256)
ACTIONS = [[{"name": name, "text": "x" * SHARED_BYTES}] for name in "abc"]


def dense(event_id: str, features: bytes = LARGE, **changed: Any) -> Decision:
    return decision(event_id, request=features, encoding="dense", **changed)


def sets(store: EventStore) -> int:
    """The number of sets in the store."""
    with store._reading() as connection:
        ((count,),) = store._execute(connection, "SELECT count(*) FROM action_sets")
    return int(count)


def logged(store: EventStore, loop: str = "shop") -> list[Decision]:
    return [settled.decision for settled in store.settled(loop, 0, 10 * WAIT, 100)]


@pytest.fixture(name="sent")
def sent_fixture() -> list[Decision]:
    """Decisions with three sets that come again, and two that do not."""
    ranking = decisions_of_slots("ranking", "012", request=LARGE, encoding="dense", values=(1.0, 2.0, 3.0))
    contexts = [
        decision(f"json {hour}", request=encode_json_request([{"hour": hour}, {"actions": '"},'}], ACTIONS))
        for hour in range(3)
    ]
    plain = [dense("first"), dense("again"), dense("other ids", actions=("d", "e", "f"))]
    return [*ranking, *contexts, *plain, dense("once", LARGE[::-1]), decision("small"), decision("small too")]


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_a_set_that_comes_again_is_stored_once(store: EventStore, sent: list[Decision], batch: int) -> None:
    for start in range(0, len(sent), batch):
        store.append_blocking(sent[start : start + batch])
    assert logged(store) == sent
    assert sets(store) == 3
    assert [each.decision for each in store.search("shop", "", 100)] == sent[::-1]
    assert [each.decision for each in store.decisions_of("shop", "ranking")] == sent[:3]


def test_every_process_finds_the_sets_of_others(opened: Callable[[], EventStore], store: EventStore) -> None:
    store.append_blocking([dense("a"), dense("b")])
    other = opened()
    other.append_blocking([dense("c")])  # this process does not know yet that the set has come before
    other.append_blocking([dense("d")])
    assert sets(store) == 1
    assert logged(store) == logged(other) == [dense(name) for name in "abcd"]
    other.close()


def test_sets_are_deleted_with_their_last_decision(store: EventStore) -> None:
    made = [dense(str(number), timestamp=number) for number in range(4)]
    others = [dense(name, LARGE[::-1], timestamp=9) for name in ("x", "y")]
    store.append_blocking(made + others)
    second = store.search("shop", "1", 1)[0].sequence
    assert store.delete_log("shop", second) == 2
    assert (logged(store), sets(store)) == (made[2:] + others, 2)
    assert store.delete_log("shop", before=5) == 2
    assert (logged(store), sets(store)) == (others, 1)
    store.append_blocking([dense("new"), dense("newer")])
    assert sets(store) == 2
    assert store.check() == []


def test_a_deleted_loop_leaves_no_sets_and_others_keep_theirs(store: EventStore) -> None:
    store.create_loop("shop", 0, {"loop": b"{}"})
    kept = [replace(dense(name), loop="kept") for name in "ab"]
    store.append_blocking([dense("a", learned_through=1), dense("b", learned_through=1), *kept])
    assert sets(store) == 2
    store.delete_loop("shop")
    assert (sets(store), logged(store, "kept")) == (1, kept)


def test_damaged_sets_are_found(opened: Callable[[], EventStore]) -> None:
    store = opened()
    store.append_blocking([dense("a"), dense("b")])
    for change, found in (
        ("UPDATE action_sets SET first = first + 1", {"decisions without their set of actions"}),
        ("UPDATE decisions SET action_set = NULL", {"sets of actions of no decision"}),
    ):
        with store._changing("decisions") as connection:
            store._execute(connection, change)
        assert found <= set(store.check())
        if "UPDATE action_sets" in change:
            with pytest.raises(StoreError, match="lost its set of actions"):
                logged(store)
    store.close()
