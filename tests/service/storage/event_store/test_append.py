"""The contract of `EventStore.append`: decisions, rewards, keys and activations."""

from collections.abc import Callable
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import Event, EventStatus, Receipt, Reward
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from tests.service.helpers import WAIT, activation, decision, decisions_of_slots, reward, statuses


def test_a_decision_is_read_as_written(store: EventStore) -> None:
    sent = decision("e", timestamp=5, slot="top", excluded=(2,), deferred=True, request=b"\0\xff", seed=2**63)
    (receipt,) = store.append_blocking([sent])
    logged = store.decision("shop", "e", "top")
    assert logged is not None
    assert (logged.sequence, logged.decision, logged.rewards, logged.activated_at) == (receipt.sequence, sent, (), None)
    assert store.decision("shop", "e") is None
    assert store.decision("other", "e", "top") is None


def test_sequence_numbers_grow_over_all_kinds_and_loops(store: EventStore) -> None:
    receipts = store.append_blocking([decision("e"), reward("e"), decision("e", loop="other"), activation("e")])
    receipts += store.append_blocking([reward("e", loop="other")])
    assert receipts == [Receipt(EventStatus.ACCEPTED, number) for number in range(1, 6)]


def test_a_duplicate_decision_changes_nothing(store: EventStore) -> None:
    first, _ = store.append_blocking([decision("e", timestamp=1), decision("f")])
    assert store.append_blocking([decision("e", timestamp=2)]) == [Receipt(EventStatus.DUPLICATE, first.sequence)]
    assert statuses(store, decision("g"), decision("g")) == [EventStatus.ACCEPTED, EventStatus.DUPLICATE]
    logged = store.decision("shop", "e")
    assert logged is not None
    assert logged.decision.timestamp == 1


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_an_event_has_the_slots_of_its_first_decision(store: EventStore, in_one_batch: bool) -> None:
    first, *retried = decisions_of_slots("e", "012")
    single, other = decision("e"), decisions_of_slots("e", "ab")
    events = [first, single, *other, *retried, single]
    batches = [events] if in_one_batch else [[event] for event in events]
    receipts = [receipt for batch in batches for receipt in store.append_blocking(batch)]
    assert [receipt.status for receipt in receipts] == [
        EventStatus.ACCEPTED,
        *[EventStatus.DUPLICATE] * 3,
        *[EventStatus.ACCEPTED] * 2,
        EventStatus.DUPLICATE,
    ]
    assert [logged.decision.slot for logged in store.decisions_of("shop", "e")] == ["0", "1", "2"]
    assert store.check() == []


def test_later_slots_are_not_written_beside_another_first_slot(store: EventStore) -> None:
    """They were chosen without the actions that the first slots have in the log."""
    sent = decisions_of_slots("e", "012")
    store.append_blocking(sent[:1])
    assert statuses(store, *sent) == [EventStatus.DUPLICATE] * 3
    assert statuses(store, *sent[1:]) == [EventStatus.ACCEPTED] * 2


def test_a_reward_needs_an_earlier_decision(store: EventStore) -> None:
    assert store.append_blocking([reward("e"), activation("e")]) == [Receipt(EventStatus.UNKNOWN, 0)] * 2
    assert statuses(store, reward("e"), decision("e"), reward("e")) == [
        EventStatus.UNKNOWN,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
    ]
    assert statuses(store, reward("e", slot="top"), reward("e", loop="other")) == [
        EventStatus.UNKNOWN,
        EventStatus.UNKNOWN,
    ]


def test_a_cascade_reward_marks_later_slots(store: EventStore) -> None:
    store.append_blocking(decisions_of_slots("e", "0123", values=(1.0, 0.0, 2.5)))
    store.append_blocking([decision("f"), decision("e", slot="0", loop="other")])
    click = replace(reward("e", slot="1", key="k"), cascade=True)
    first, *again = store.append_blocking([click, click, replace(click, timestamp=9 * WAIT)])
    assert (first.status, again) == (EventStatus.ACCEPTED, [Receipt(EventStatus.DUPLICATE, first.sequence)] * 2)
    logged = store.decisions_of("shop", "e")
    assert [[each.value for each in slot.rewards] for slot in logged] == [[], [1.0], [None], [None]]
    assert [slot.settled().observed for slot in logged] == [True, True, False, False]
    assert logged[3].decision.values == (1.0, 0.0, 2.5)
    assert store.reward_bounds("shop") == (1.0, 1.0)
    assert store.last_event() == first.sequence + 2
    assert statuses(store, reward("e", slot="3"), replace(reward("?"), cascade=True)) == [
        EventStatus.ACCEPTED,
        EventStatus.UNKNOWN,
    ]
    assert store.check() == []
    *_, unseen, rewarded = store.decisions_of("shop", "e")
    assert not unseen.settled().observed
    assert rewarded.settled().observed  # it has a reward of its own
    assert rewarded.settled().rewards == ((1, 1.0),)


def test_a_repeated_key_marks_later_slots_once(store: EventStore) -> None:
    store.append_blocking(decisions_of_slots("e", "012"))
    plain = reward("e", slot="0", key="k")
    click = replace(plain, cascade=True)
    store.append_blocking([replace(plain, slot="1")])
    assert statuses(store, plain, replace(click, timestamp=9 * WAIT), click) == [
        EventStatus.ACCEPTED,
        *[EventStatus.DUPLICATE] * 2,
    ]
    assert statuses(store, click, replace(click, key="")) == [EventStatus.DUPLICATE, EventStatus.ACCEPTED]
    rewards = [[each.value for each in slot.rewards] for slot in store.decisions_of("shop", "e")]
    assert rewards == [[1.0, 1.0], [1.0, None], [None]]


def test_a_cascade_reward_may_be_in_the_batch_of_its_slots(store: EventStore) -> None:
    slots = decisions_of_slots("e", "01")
    store.append_blocking([*slots, activation("e"), replace(reward("e", slot="0"), cascade=True)])
    assert [slot.settled().observed for slot in store.decisions_of("shop", "e")] == [True, False]


def test_a_key_counts_once(store: EventStore) -> None:
    store.append_blocking([decision("e"), decision("f")])
    (receipt,) = store.append_blocking([reward("e", key="k", value=1.0)])
    assert store.append_blocking([reward("e", key="k", value=2.0)]) == [
        Receipt(EventStatus.DUPLICATE, receipt.sequence)
    ]
    assert statuses(
        store, reward("f", key="k"), reward("e", key="l"), reward("e", key="l"), reward("e"), reward("e")
    ) == [
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
        EventStatus.DUPLICATE,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
    ]
    assert [len(settled.rewards) for settled in store.settled("shop", 0, WAIT + 1, 10)] == [4, 1]


def test_a_late_reward_does_not_replace_one_in_time(store: EventStore) -> None:
    store.append_blocking([decision("e")])
    assert statuses(store, reward("e", timestamp=WAIT + 1, key="k"), reward("e", timestamp=WAIT + 2, key="k")) == [
        EventStatus.LATE,
        EventStatus.DUPLICATE,
    ]
    assert statuses(store, reward("e", timestamp=3, key="k")) == [EventStatus.ACCEPTED]
    assert (
        statuses(store, reward("e", timestamp=4, key="k"), reward("e", timestamp=WAIT + 1, key="k"))
        == [EventStatus.DUPLICATE] * 2
    )
    (settled,) = store.settled("shop", 0, WAIT + 1, 10)
    assert settled.rewards == ((3, 1.0),)


def test_an_activation_applies_to_all_slots_once(store: EventStore) -> None:
    store.append_blocking([*decisions_of_slots("e", "12"), decision("f")])
    (receipt,) = store.append_blocking([activation("e", timestamp=7)])
    assert receipt.status is EventStatus.ACCEPTED
    assert store.append_blocking([activation("e", timestamp=8)]) == [Receipt(EventStatus.DUPLICATE, receipt.sequence)]
    assert statuses(store, activation("f", timestamp=WAIT + 1)) == [EventStatus.LATE]
    assert [settled.activated for settled in store.settled("shop", 0, WAIT + 1, 10)] == [True, True, False]
    logged = store.decision("shop", "e", "2")
    assert logged is not None
    assert logged.activated_at == 7
    assert statuses(store, activation("f", timestamp=WAIT)) == [EventStatus.ACCEPTED]


def test_an_activation_applies_to_earlier_decisions(store: EventStore) -> None:
    first, second = decisions_of_slots("e", "12")
    events: list[Event] = [
        activation("e"),
        first,
        activation("e"),
        second,
        activation("e"),
    ]
    assert statuses(store, *events, activation("e")) == [
        EventStatus.UNKNOWN,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
        EventStatus.ACCEPTED,
        EventStatus.DUPLICATE,
    ]
    assert [settled.activated for settled in store.settled("shop", 0, WAIT + 1, 10)] == [True, True]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_order_and_duplication_do_not_matter(new_address: Callable[[], tuple[str, str]], data: st.DataObject) -> None:
    """Also how rewards are dealt to calls, and that the same ones come late again."""
    names = ["a", "b", "c"]
    sent = data.draw(
        st.dictionaries(
            st.tuples(st.sampled_from(names), st.sampled_from(["k", "l", "m"])),
            st.tuples(st.integers(0, 2 * WAIT), st.floats(-10, 10)),
            max_size=9,
        )
    )
    rewards = [reward(name, at, value, key=key) for (name, key), (at, value) in sent.items()]
    again = data.draw(st.lists(st.sampled_from(rewards), max_size=6)) if rewards else []
    again += [Reward(loop="shop", event_id=r.event_id, timestamp=3 * WAIT, value=r.value, key=r.key) for r in again[:2]]
    shuffled = data.draw(st.permutations(rewards + again))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=3)))
    address, durability = new_address()
    with closing(open_store(address, durability=durability)) as store:
        store.append_blocking([decision(name) for name in names])
        for start, stop in zip([0, *cuts], [*cuts, len(shuffled)], strict=True):
            store.append_blocking(shuffled[start:stop])
        settled_decisions = store.settled("shop", 0, 10 * WAIT, 10)
    assert [settled.decision.event_id for settled in settled_decisions] == names
    for settled in settled_decisions:
        in_time = [
            (r.timestamp, r.value) for r in rewards if r.event_id == settled.decision.event_id and r.timestamp <= WAIT
        ]
        assert sorted(settled.rewards) == sorted(in_time)


def test_an_invalid_event_fails_the_whole_call(store: EventStore) -> None:
    for bad in (
        reward("a", value=float("nan")),
        reward("a", key="\0"),
        decision("a", slot="\0"),
        activation("\0"),
        decision("\ud800"),
        decision("z", timestamp=2**63),
    ):
        with pytest.raises(InvalidInput, match="must"):
            store.append_blocking([decision("a"), bad])
        assert store.decision("shop", "a") is None
    assert store.append_blocking([decision("a")]) == [Receipt(EventStatus.ACCEPTED, 1)]
    assert store.append_blocking([]) == []
    with pytest.raises(InvalidInput, match="names must be valid Unicode text"):
        store.decision("shop", "\ud800")


NAMES = ("", "1", "null", 'a "quoted" \\ one', "line\nbreak", "\x7f\x01", "\N{SNOWMAN}", "\U0010fffe")


@pytest.mark.parametrize("name", NAMES)
def test_names_are_any_text(store: EventStore, name: str) -> None:
    decided = decision(name, loop=name, slot=name)
    rewarded, activated = reward(name, loop=name, slot=name, key=f"{name}-"), activation(name, loop=name)
    assert statuses(store, decided) == [EventStatus.ACCEPTED]
    assert statuses(store, rewarded, activated) == [EventStatus.ACCEPTED] * 2
    assert statuses(store, rewarded, activated, decided) == [EventStatus.DUPLICATE] * 3
    assert store.seal(name, 0, 2 * WAIT, 10) == 1
    assert statuses(store, reward(name, loop=name, slot=name)) == [EventStatus.LATE]
    assert store.summary(name).decisions[EventStatus.DUPLICATE] == 1
    assert store.delete_log(name, reset_counts=True) == 1
    assert store.summary(name).decisions[EventStatus.DUPLICATE] == 0
    assert store.append_blocking([decision("next")]) == [Receipt(EventStatus.ACCEPTED, 5)]


def test_a_reward_out_of_range_is_counted_and_not_written(store: EventStore) -> None:
    store.append_blocking([decision("e", reward_range=(-1.0, 1 / 3)), decision("free")])
    receipts = store.append_blocking([reward("e", value=0.5, key="k"), reward("e", value=1 / 3, key="k")])
    assert [receipt.status for receipt in receipts] == [EventStatus.OUT_OF_RANGE, EventStatus.ACCEPTED]
    assert receipts[0] == Receipt(
        EventStatus.OUT_OF_RANGE, 0, "reward must be between -1 and 0.333333 for this event, got 0.5"
    )
    assert statuses(store, reward("e", value=-2.0, key="k"), reward("free", value=1e9)) == [
        EventStatus.OUT_OF_RANGE,
        EventStatus.ACCEPTED,
    ]
    same_call: list[Event] = [
        decision("new", reward_range=(0.0, 1.0)),
        reward("new", value=2.0),
        reward("new", value=1.0),
    ]
    assert statuses(store, *same_call) == [EventStatus.ACCEPTED, EventStatus.OUT_OF_RANGE, EventStatus.ACCEPTED]
    assert store.summary("shop").rewards[EventStatus.OUT_OF_RANGE] == 3
    assert [settled.decision.reward_range for settled in store.settled("shop", 0, 2 * WAIT, 9)] == [
        (-1.0, 1 / 3),
        None,
        (0.0, 1.0),
    ]
