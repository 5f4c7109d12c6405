"""The contract of `EventStore.seal` and `EventStore.settled`."""

from collections.abc import Callable
from contextlib import closing

import pytest

from glbandits.service.domain.errors import LeaseLost
from glbandits.service.domain.events import EventStatus
from glbandits.service.storage.event_store import EventStore
from tests.service.helpers import WAIT, activation, decision, metric, reward, statuses


def test_the_reward_window_includes_its_end(store: EventStore) -> None:
    store.append_blocking([decision("e", timestamp=10)])
    assert statuses(store, reward("e", timestamp=10 + WAIT), reward("e", timestamp=11 + WAIT)) == [
        EventStatus.ACCEPTED,
        EventStatus.LATE,
    ]
    assert store.settled("shop", 0, 10 + WAIT, 10) == []
    (settled,) = store.settled("shop", 0, 11 + WAIT, 10)
    assert settled.rewards == ((10 + WAIT, 1.0),)


def test_settled_decisions_are_in_order(store: EventStore) -> None:
    store.append_blocking(
        [
            decision("a", timestamp=0),
            decision("b", timestamp=9),
            decision("c", timestamp=1),
            decision("x", loop="other"),
        ]
    )
    assert [settled.decision.event_id for settled in store.settled("shop", 0, WAIT + 5, 10)] == ["a"]
    (first, second) = store.settled("shop", 0, WAIT + 20, 2)
    assert (first.decision.event_id, second.decision.event_id) == ("a", "b")
    assert [settled.decision.event_id for settled in store.settled("shop", second.sequence, WAIT + 20, 2)] == ["c"]


def test_decisions_before_a_time_are_sealed_early(store: EventStore) -> None:
    store.append_blocking(
        [
            decision("a", timestamp=0, reward_window=100 * WAIT),
            decision("b", timestamp=5),
            decision("c", timestamp=6, reward_window=100 * WAIT),
        ]
    )
    assert store.seal("shop", 0, WAIT + 10, 10) == 0
    assert store.settled("shop", 0, WAIT + 10, 10) == []
    assert store.seal("shop", 0, WAIT + 10, 10, made_before=6) == 2
    assert [settled.decision.event_id for settled in store.settled("shop", 0, WAIT + 10, 10)] == ["a", "b"]
    assert [
        receipt.status for receipt in store.append_blocking([reward("a", timestamp=10), reward("c", timestamp=10)])
    ] == [
        EventStatus.LATE,
        EventStatus.ACCEPTED,
    ]


def test_a_sealed_decision_accepts_no_rewards(store: EventStore) -> None:
    store.append_blocking([decision("a", timestamp=0), decision("b", timestamp=5), decision("x", loop="other")])
    assert store.seal("shop", 0, WAIT + 1, 10) == 1
    assert store.seal("shop", 0, 3, 10) == 1  # it stays closed, whatever the clock says
    # They came in time, and were on their way when the learner began.
    assert statuses(store, reward("a"), activation("a"), reward("b"), reward("x", loop="other")) == [
        EventStatus.LATE,
        EventStatus.LATE,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
    ]
    (settled,) = store.settled("shop", 0, WAIT + 1, 10)
    assert (settled.rewards, settled.activated) == ((), False)


def test_only_settled_decisions_are_sealed(store: EventStore) -> None:
    store.append_blocking([decision("a"), decision("b"), decision("c", timestamp=9), decision("d")])
    assert store.seal("shop", 0, WAIT + 1, 1) == 1
    assert statuses(store, reward("a"), reward("b")) == [EventStatus.LATE, EventStatus.ACCEPTED]
    assert store.seal("shop", 1, WAIT + 1, 10) == 2
    # None overtakes another: the last one is not passed yet, so what came in time for it counts.
    assert statuses(store, reward("b"), reward("c"), reward("d")) == [
        EventStatus.LATE,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
    ]
    assert store.seal("shop", 2, WAIT + 1, 10) == 0


def test_a_wrong_clock_does_not_seal_later_decisions(store: EventStore) -> None:
    store.append_blocking([decision("a")])
    assert store.seal("shop", 0, 10**15, 10) == 1
    assert store.seal("shop", 1, 10**15, 10) == 0
    store.append_blocking([decision("b", timestamp=5)])
    assert statuses(store, reward("a"), reward("b", timestamp=6)) == [EventStatus.LATE, EventStatus.ACCEPTED]


def test_a_seal_survives_reopening(opened: Callable[[], EventStore]) -> None:
    store = opened()
    store.append_blocking([decision("a")])
    store.seal("shop", 0, WAIT + 1, 10)
    store.close()
    store = opened()
    assert statuses(store, reward("a")) == [EventStatus.LATE]
    store.close()


def test_decisions_are_sealed_by_sequence_number(store: EventStore) -> None:
    store.append_blocking(
        [decision("a", timestamp=10**15), decision("b", timestamp=0), decision("c", timestamp=10**15), decision("d")]
    )
    assert store.seal("shop", 0, 5, 10) == 0
    assert store.seal("shop", 0, 5, 1, logged_through=3) == 1
    assert store.seal("shop", 1, WAIT + 5, 10, logged_through=1) == 2
    assert [settled.decision.event_id for settled in store.settled("shop", 0, 5, 10)] == ["a", "b"]
    assert statuses(store, reward("a"), reward("b"), reward("c")) == [
        EventStatus.LATE,
        EventStatus.LATE,
        EventStatus.ACCEPTED,
    ]
    assert store.seal("shop", 2, 5, 10, logged_through=9) == 4
    assert store.append_blocking([decision("e")])[0].sequence > 4
    assert statuses(store, reward("d"), reward("e")) == [EventStatus.LATE, EventStatus.ACCEPTED]


def test_a_number_of_a_sealed_unit_is_late(store: EventStore, opened: Callable[[], EventStore]) -> None:
    store.append_blocking([decision("a", unit="u"), decision("b", unit="v"), decision("again", unit="u")])
    assert statuses(store, metric("a", "margin")) == [EventStatus.ACCEPTED]
    store.seal_metrics("shop", {"margin": 1, "clicks": 2})
    store.seal_metrics("shop", {"clicks": 1})  # a seal stays
    with closing(opened()) as other:
        assert statuses(other, metric("again", "margin"), metric("b", "margin"), metric("b", "visits")) == [
            EventStatus.LATE,
            EventStatus.ACCEPTED,
            EventStatus.ACCEPTED,
        ]
        assert statuses(other, metric("b", "clicks"), metric("a", "clicks")) == [EventStatus.LATE] * 2


def test_only_the_learner_seals_units(store: EventStore, opened: Callable[[], EventStore]) -> None:
    assert store.lease.keep()
    with closing(opened()) as other:
        term, beat = other.read_lease()
        assert other.change_lease((term, beat), (term + 1, beat))
    with pytest.raises(LeaseLost):
        store.seal_metrics("shop", {"margin": 1})
