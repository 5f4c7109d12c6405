"""The contract of `EventStore`: every store passes these tests."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.errors import InvalidInput
from glbandits.serving.domain.errors import StoreError
from glbandits.serving.domain.events import Event, EventStatus, Receipt, Reward
from glbandits.serving.storage import event_store
from glbandits.serving.storage.event_store import Document, EventStore, SavedModel
from glbandits.serving.storage.open_store import open_store
from tests.serving.makers import WAIT, activation, decision, reward
from tests.serving.storage.postgres_server import PostgresServer

STORES = ("sqlite, process", "sqlite, power", "postgres")


@pytest.fixture(scope="module", params=STORES, name="new_address")
def new_address_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], tuple[str, str]]:
    """Makes addresses of empty stores, with their durability."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return lambda: (server.new_address(), "process")
    return lambda: (str(tmp_path_factory.mktemp("store") / "events.db"), request.param.split()[1])


@pytest.fixture(name="opened")
def opened_fixture(new_address: Callable[[], tuple[str, str]]) -> Callable[[], EventStore]:
    address, durability = new_address()
    return lambda: open_store(address, durability=durability)


@pytest.fixture(name="store")
def store_fixture(opened: Callable[[], EventStore]) -> Iterator[EventStore]:
    store = opened()
    yield store
    assert store.check() == []
    store.close()


def statuses(store: EventStore, *events: Event) -> list[EventStatus]:
    return [receipt.status for receipt in store.append_blocking(events)]


def test_a_decision_comes_back_as_it_was(store: EventStore) -> None:
    sent = decision("e", timestamp=5, slot="top", excluded=(2,), deferred=True, request=b"\0\xff", seed=2**63)
    (receipt,) = store.append_blocking([sent])
    found = store.decision("shop", "e", "top")
    assert found is not None
    assert (found.sequence, found.decision, found.rewards, found.activated_at) == (receipt.sequence, sent, (), None)
    assert store.decision("shop", "e") is None
    assert store.decision("other", "e", "top") is None


def test_numbers_grow_over_all_kinds_and_loops(store: EventStore) -> None:
    receipts = store.append_blocking([decision("e"), reward("e"), decision("e", loop="other"), activation("e")])
    receipts += store.append_blocking([reward("e", loop="other")])
    assert receipts == [Receipt(EventStatus.ACCEPTED, number) for number in range(1, 6)]


def test_a_second_decision_of_the_same_name_changes_nothing(store: EventStore) -> None:
    first, _ = store.append_blocking([decision("e", timestamp=1), decision("f")])
    assert store.append_blocking([decision("e", timestamp=2)]) == [Receipt(EventStatus.DUPLICATE, first.sequence)]
    assert statuses(store, decision("g"), decision("g"), decision("e", slot="2")) == [
        EventStatus.ACCEPTED,
        EventStatus.DUPLICATE,
        EventStatus.ACCEPTED,
    ]
    found = store.decision("shop", "e")
    assert found is not None
    assert found.decision.timestamp == 1


def test_a_reward_needs_its_decision_before_it(store: EventStore) -> None:
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


def test_the_wait_includes_its_last_moment(store: EventStore) -> None:
    store.append_blocking([decision("e", timestamp=10)])
    assert statuses(store, reward("e", timestamp=10 + WAIT), reward("e", timestamp=11 + WAIT)) == [
        EventStatus.ACCEPTED,
        EventStatus.LATE,
    ]
    assert store.settled("shop", 0, 10 + WAIT, 10) == []
    (settled,) = store.settled("shop", 0, 11 + WAIT, 10)
    assert settled.rewards == ((10 + WAIT, 1.0),)


def test_a_key_counts_once(store: EventStore) -> None:
    store.append_blocking([decision("e"), decision("f")])
    (kept,) = store.append_blocking([reward("e", key="k", value=1.0)])
    assert store.append_blocking([reward("e", key="k", value=2.0)]) == [Receipt(EventStatus.DUPLICATE, kept.sequence)]
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


def test_a_late_reward_does_not_take_the_place_of_one_in_time(store: EventStore) -> None:
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


def test_an_activation_is_for_all_slots_and_counts_once(store: EventStore) -> None:
    store.append_blocking([decision("e", slot="1"), decision("e", slot="2"), decision("f")])
    (kept,) = store.append_blocking([activation("e", timestamp=7)])
    assert kept.status is EventStatus.ACCEPTED
    assert store.append_blocking([activation("e", timestamp=8)]) == [Receipt(EventStatus.DUPLICATE, kept.sequence)]
    assert statuses(store, activation("f", timestamp=WAIT + 1)) == [EventStatus.LATE]
    assert [settled.activated for settled in store.settled("shop", 0, WAIT + 1, 10)] == [True, True, False]
    found = store.decision("shop", "e", "2")
    assert found is not None
    assert found.activated_at == 7
    assert statuses(store, activation("f", timestamp=WAIT)) == [EventStatus.ACCEPTED]


def test_decisions_of_an_event_are_its_slots_in_order(store: EventStore) -> None:
    store.append_blocking(
        [decision("e", slot="2"), decision("ee"), decision("e", slot="1"), decision("e", loop="other")]
    )
    assert [logged.decision.slot for logged in store.decisions_of("shop", "e")] == ["2", "1"]
    assert store.decisions_of("shop", "unknown") == []


def test_an_activation_is_for_what_was_decided_before_it_in_the_same_call(store: EventStore) -> None:
    events: list[Event] = [
        activation("e"),
        decision("e", slot="1"),
        activation("e"),
        decision("e", slot="2"),
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


def test_no_decision_overtakes_another(store: EventStore) -> None:
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


def test_decisions_made_before_a_time_are_sealed_though_their_wait_is_not_over(store: EventStore) -> None:
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


def test_a_sealed_decision_takes_no_more_rewards(store: EventStore) -> None:
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


def test_a_seal_is_for_those_that_settled_has(store: EventStore) -> None:
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


def test_a_clock_that_was_wrong_closes_nothing_that_is_decided_later(store: EventStore) -> None:
    store.append_blocking([decision("a")])
    assert store.seal("shop", 0, 10**15, 10) == 1
    assert store.seal("shop", 1, 10**15, 10) == 0
    store.append_blocking([decision("b", timestamp=5)])
    assert statuses(store, reward("a"), reward("b", timestamp=6)) == [EventStatus.LATE, EventStatus.ACCEPTED]


def test_a_seal_outlives_the_store(opened: Callable[[], EventStore]) -> None:
    store = opened()
    store.append_blocking([decision("a")])
    store.seal("shop", 0, WAIT + 1, 10)
    store.close()
    store = opened()
    assert statuses(store, reward("a")) == [EventStatus.LATE]
    store.close()


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
        found = store.settled("shop", 0, 10 * WAIT, 10)
    assert [settled.decision.event_id for settled in found] == names
    for settled in found:
        in_time = [
            (r.timestamp, r.value) for r in rewards if r.event_id == settled.decision.event_id and r.timestamp <= WAIT
        ]
        assert sorted(settled.rewards) == sorted(in_time)


def test_all_or_none_of_a_call(store: EventStore) -> None:
    for bad in (
        reward("a", value=float("nan")),
        reward("a", key="\0"),
        decision("a", slot="\0"),
        activation("\0"),
        decision("\ud800"),
        decision("z", timestamp=2**63),
    ):
        with pytest.raises(InvalidInput, match="must be"):
            store.append_blocking([decision("a"), bad])
        assert store.decision("shop", "a") is None
    assert store.append_blocking([decision("a")]) == [Receipt(EventStatus.ACCEPTED, 1)]
    assert store.append_blocking([]) == []
    with pytest.raises(InvalidInput, match="names must be valid Unicode text"):
        store.decision("shop", "\ud800")


def test_search_gives_the_newest_first(store: EventStore) -> None:
    store.append_blocking([decision(name) for name in ("ab1", "b", "ab2", "abc", "ab\U0010fffe")])
    store.append_blocking([reward("ab2", timestamp=2 * WAIT), decision("ab0", loop="other")])
    found = store.search("shop", "ab", 2)
    assert [each.decision.event_id for each in found] == ["ab\U0010fffe", "abc"]
    found = store.search("shop", "ab", 10, before=found[-1].sequence)
    assert [each.decision.event_id for each in found] == ["ab2", "ab1"]
    assert [logged.late for logged in found[0].rewards] == [True]
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
    found = store.summary("shop")
    assert (found.first_at, found.last_at) == (3, 4)
    assert found.decisions == dict.fromkeys(EventStatus, 0) | {EventStatus.ACCEPTED: 2, EventStatus.DUPLICATE: 1}
    assert found.rewards == dict.fromkeys(EventStatus, 1) | {EventStatus.OUT_OF_RANGE: 0}
    assert found.activations[EventStatus.ACCEPTED] == 1


def test_deletion_frees_names_and_keeps_numbers_growing(store: EventStore) -> None:
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
    assert [store.last_sequence("shop", before=at) for at in (1, 2, 3, 4)] == [0, 0, 2, 3]
    assert [store.last_sequence("shop", up_to=number) for number in (1, 2, 9)] == [0, 2, 3]
    assert store.last_sequence("shop", before=4, up_to=2) == store.last_sequence("shop", before=3) == 2
    assert store.delete_log("shop", up_to=2) == 1
    assert [each.decision.event_id for each in store.search("shop", "", 9)] == ["c"]
    assert store.summary("shop").rewards[EventStatus.ACCEPTED] == 2
    assert store.delete_log("shop", reset_counts=True) == 1
    assert store.summary("shop").rewards[EventStatus.ACCEPTED] == 0
    assert store.append_blocking([decision("a")]) == [Receipt(EventStatus.ACCEPTED, 8)]
    assert store.decision("other", "a") is not None


def test_documents_keep_their_history(store: EventStore) -> None:
    assert store.latest_document("shop", "policy") is None
    for at in (5, 4):
        store.save_document("shop", "policy", at, b"%d" % at)
    store.save_document("shop", "keys", 6, b"")
    assert store.documents("shop", "keys") == [Document(1, 6, b"")]
    assert store.documents("shop", "policy") == [Document(1, 5, b"5"), Document(2, 4, b"4")]
    assert store.latest_document("shop", "policy") == Document(2, 4, b"4")
    assert store.documents("other", "policy") == []


def test_documents_are_saved_together_or_not_at_all(store: EventStore) -> None:
    store.save_document("shop", "policy", 1, b"a")
    assert store.save_documents("shop", 2, {"policy": b"b", "base": b"c"}, expected_versions={"policy": 1, "base": 0})
    assert not store.save_documents(
        "shop", 3, {"policy": b"d", "base": b"e"}, expected_versions={"policy": 2, "base": 0}
    )
    assert store.latest_document("shop", "policy") == Document(2, 2, b"b")
    assert store.save_documents("shop", 4, {"base": b"f"}, expected_versions={"policy": 2}, latest_only=["base"])
    assert store.documents("shop", "base") == [Document(2, 4, b"f")]
    assert len(store.documents("shop", "policy")) == 2


def test_models_by_number(store: EventStore) -> None:
    assert store.latest_model("shop") is None
    for number in (10, 20, 30, 40):
        store.save_model("shop", number, timestamp=number, body=b"x" * number)
    store.save_model("other", 99, timestamp=0, body=b"")
    assert store.model_at_most("shop", 29) == SavedModel(20, 20, b"x" * 20)
    assert store.model_at_most("shop", 9) is None
    store.save_model("shop", 50, timestamp=50, body=b"new", keep=2)
    found = (store.model_at_most("shop", number) for number in (10, 39, 40, 50))
    assert [model and model.sequence for model in found] == [10, 10, 40, 50]
    store.save_model("shop", 50, timestamp=51, body=b"newer")
    assert store.latest_model("shop") == SavedModel(50, 51, b"newer")
    with pytest.raises(InvalidInput, match="keep must be a whole number of at least 1; got 0"):
        store.save_model("shop", 60, timestamp=0, body=b"", keep=0)


def test_older_models_stay_at_intervals(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "SNAPSHOT_SPACING", 10)
    monkeypatch.setattr(event_store, "MOST_SNAPSHOTS", 3)
    for number in range(1, 100, 3):
        store.save_model("shop", number, timestamp=0, body=b"m", keep=2)
    found = {model.sequence for n in range(1, 100) if (model := store.model_at_most("shop", n))}
    assert sorted(found) == [1, 70, 82, 91, 94, 97]


def test_everything_is_there_when_it_is_opened_again(opened: Callable[[], EventStore]) -> None:
    store = opened()
    store.append_blocking([decision("a"), reward("a", value=0.1), activation("a")])
    store.save_model("shop", 1, timestamp=0, body=b"m")
    before = (store.decision("shop", "a"), store.summary("shop"), store.latest_model("shop"))
    store.close()
    store = opened()
    assert (store.decision("shop", "a"), store.summary("shop"), store.latest_model("shop")) == before
    assert store.append_blocking([decision("b")]) == [Receipt(EventStatus.ACCEPTED, 4)]
    store.close()


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


def test_what_is_tidied_is_as_it_was(store: EventStore) -> None:
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


def test_a_closed_store_says_so(opened: Callable[[], EventStore]) -> None:
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
            found = store.decision("shop", f"{worker}-{i}")
            assert found is not None
            assert len(found.rewards) == 1
        return receipts

    with ThreadPoolExecutor(4) as pool:
        receipts = [receipt for each in pool.map(work, range(4)) for receipt in each]
    kept = [receipt.sequence for receipt in receipts if receipt.status is EventStatus.ACCEPTED]
    assert sorted(kept) == list(range(1, 4 * 20 * 2 + 20 + 1))
    settled = store.settled("shop", 0, 10 * WAIT, 1000)
    assert [each.sequence for each in settled] == sorted(each.sequence for each in settled)
    assert len(settled) == 100


def test_a_reward_out_of_range_is_counted_and_not_written(store: EventStore) -> None:
    store.append_blocking([decision("e", reward_range=(-1.0, 1 / 3)), decision("free")])
    found = store.append_blocking([reward("e", value=0.5, key="k"), reward("e", value=1 / 3, key="k")])
    assert [receipt.status for receipt in found] == [EventStatus.OUT_OF_RANGE, EventStatus.ACCEPTED]
    assert found[0] == Receipt(
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


def test_decisions_are_sealed_by_number_whatever_their_time(store: EventStore) -> None:
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
