"""The contract of `EventStore`: searches, summaries, deletion, threads, and closing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import EventStatus, Receipt
from glbandits.service.storage.event_store import EventStore
from tests.service.helpers import WAIT, activation, decision, decisions_of_slots, reward


def test_decisions_of_an_event_are_its_slots_in_order(store: EventStore) -> None:
    first, second = decisions_of_slots("e", "21")
    store.append_blocking([first, decision("ee"), second, decision("e", loop="other")])
    assert [logged.decision.slot for logged in store.decisions_of("shop", "e")] == ["2", "1"]
    assert store.decisions_of("shop", "unknown") == []


def test_search_returns_the_newest_first(store: EventStore) -> None:
    store.append_blocking([decision(name) for name in ("ab1", "b", "ab2", "abc", "ab\U0010fffe")])
    store.append_blocking([reward("ab2", timestamp=2 * WAIT), decision("ab0", loop="other")])
    page = store.search("shop", "ab", 2)
    assert [each.decision.event_id for each in page] == ["ab\U0010fffe", "abc"]
    page = store.search("shop", "ab", 10, before=page[-1].sequence)
    assert [each.decision.event_id for each in page] == ["ab2", "ab1"]
    assert [logged.late for logged in page[0].rewards] == [True]
    assert [each.decision.event_id for each in store.search("shop", "", 4)] == ["ab\U0010fffe", "abc", "ab2", "b"]
    assert store.search("shop", "%", 10) == []


def test_the_summary_counts_every_status(store: EventStore) -> None:
    assert store.summary("shop").first_at is None
    store.append_blocking(
        [
            decision("a", timestamp=3),
            decision("b", timestamp=4),
            decision("a"),
            reward("a", key="k"),
            reward("a", key="k"),
        ]
    )
    store.append_blocking(
        [reward("a", timestamp=9 * WAIT), reward("nobody"), activation("a"), decision("x", loop="other")]
    )
    summary = store.summary("shop")
    assert (summary.first_at, summary.last_at) == (3, 4)
    assert summary.decisions == dict.fromkeys(EventStatus, 0) | {EventStatus.ACCEPTED: 2, EventStatus.DUPLICATE: 1}
    assert summary.rewards == dict.fromkeys(EventStatus, 1) | {EventStatus.OUT_OF_RANGE: 0}
    assert summary.activations[EventStatus.ACCEPTED] == 1


def test_deletion_frees_names_but_not_numbers(store: EventStore) -> None:
    store.append_blocking(
        [
            decision("a", timestamp=1),
            decision("b", timestamp=2),
            decision("c", timestamp=3),
            decision("a", loop="other"),
        ]
    )
    store.append_blocking([reward("a"), reward("c"), activation("a")])
    assert store.delete_log("shop", up_to=1) == 1
    assert store.decision("shop", "a") is None
    assert [store.count_after("shop", number) for number in (0, 1, 2, 3)] == [2, 2, 1, 0]
    assert [store.last_sequence("shop", before=at) for at in (1, 2, 3, 4)] == [0, 0, 2, 3]
    assert [store.last_sequence("shop", up_to=number) for number in (1, 2, 9)] == [0, 2, 3]
    assert store.delete_log("shop", up_to=2) == 1
    assert [each.decision.event_id for each in store.search("shop", "", 9)] == ["c"]
    assert store.summary("shop").rewards[EventStatus.ACCEPTED] == 2
    assert store.delete_log("shop", reset_counts=True) == 1
    assert store.summary("shop").rewards[EventStatus.ACCEPTED] == 0
    assert store.append_blocking([decision("a")]) == [Receipt(EventStatus.ACCEPTED, 8)]
    assert store.decision("other", "a") is not None


def test_decisions_are_deleted_by_their_timestamps(store: EventStore) -> None:
    """The clock was wrong for b, which must not keep the older decisions after it."""
    store.append_blocking(
        [decision(name, timestamp) for name, timestamp in zip("abcde", (1, 90, 2, 3, 50), strict=True)]
    )
    store.append_blocking([reward("b", 91), reward("c", 4), activation("c", 4), decision("a", loop="other")])
    assert [store.last_sequence("shop", before=40, up_to=last) for last in (0, 2, 3, 9)] == [0, 1, 3, 4]
    assert store.delete_log("shop", 3, before=40) == 2
    assert [each.decision.event_id for each in store.search("shop", "", 9)] == ["e", "d", "b"]
    assert [len(each.rewards) for each in store.search("shop", "b", 1)] == [1]
    assert store.decision("other", "a") is not None


def test_data_survives_reopening(opened: Callable[[], EventStore]) -> None:
    store = opened()
    store.append_blocking([decision("a"), reward("a", value=0.1), activation("a")])
    store.save_model("shop", 1, timestamp=0, body=b"m")
    before = (store.decision("shop", "a"), store.summary("shop"), store.latest_model("shop"))
    store.close()
    store = opened()
    assert (store.decision("shop", "a"), store.summary("shop"), store.latest_model("shop")) == before
    assert store.append_blocking([decision("b")]) == [Receipt(EventStatus.ACCEPTED, 4)]
    store.close()


def test_maintenance_changes_no_data(store: EventStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [store.append_blocking([decision(str(i)), reward(str(i))]) for i in range(100)])
        while not writing.done():
            store.maintain()
        writing.result()
    store.maintain()
    assert (
        store.summary("shop").decisions[EventStatus.ACCEPTED]
        == store.summary("shop").rewards[EventStatus.ACCEPTED]
        == 100
    )
    assert [len(settled.rewards) for settled in store.settled("shop", 0, 2 * WAIT, 1000)] == [1] * 100


def test_a_closed_store_raises(opened: Callable[[], EventStore]) -> None:
    store = opened()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed; open it again"):
        store.append_blocking([decision("a")])
    with pytest.raises(StoreError, match="is closed; open it again"):
        store.summary("shop")
    with pytest.raises(StoreError, match="is closed; open it again"):
        store.maintain()


def test_many_threads_write_and_read(store: EventStore) -> None:
    def work(worker: int) -> list[Receipt]:
        receipts = []
        for i in range(20):
            receipts += store.append_blocking(
                [decision(f"{worker}-{i}"), decision(f"shared-{i}"), reward(f"{worker}-{i}")]
            )
            logged = store.decision("shop", f"{worker}-{i}")
            assert logged is not None
            assert len(logged.rewards) == 1
        return receipts

    with ThreadPoolExecutor(4) as pool:
        receipts = [receipt for each in pool.map(work, range(4)) for receipt in each]
    kept = [receipt.sequence for receipt in receipts if receipt.status is EventStatus.ACCEPTED]
    assert sorted(kept) == list(range(1, 4 * 20 * 2 + 20 + 1))
    settled = store.settled("shop", 0, 10 * WAIT, 1000)
    assert [each.sequence for each in settled] == sorted(each.sequence for each in settled)
    assert len(settled) == 100
