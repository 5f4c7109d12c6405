"""The contract of `EventStore`: units and metrics."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.events import Decision, Event, EventStatus, UnitStart
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.loop_store import IDENTITY
from tests.service.helpers import WAIT, decision, decisions_of_slots, metric, reward, statuses

ACCEPTED, DUPLICATE, LATE = EventStatus.ACCEPTED, EventStatus.DUPLICATE, EventStatus.LATE


def events_of_units(store: EventStore, loop_name: str = "shop") -> dict[str, list[str]]:
    """The events of each unit, by the first one."""
    starts = store.units_after(loop_name, 0, 1_000)
    units: dict[int, list[str]] = {}
    for first, logged in store.decisions_of_units([start.first for start in starts], 1_000):
        units.setdefault(first, []).append(logged.decision.event_id)
    return {events[0]: events for events in units.values()}


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_decisions_of_a_unit_belong_together(store: EventStore, in_one_batch: bool) -> None:
    events: list[Event] = [
        decision("a", 5, unit="x"),
        decision("b", 6),
        decision("c", 7, unit="x"),
        decision("c", 7, unit="new"),  # a duplicate does not begin a unit
        decision("d", 8, unit="y"),
        decision("e", 9, unit="x", alone=True),
        decision("f", 9, unit="x"),
    ]
    for batch in [events] if in_one_batch else [[event] for event in events]:
        store.append_blocking(batch)
    assert store.units_after("shop", 0, 10) == [UnitStart(1, 5), UnitStart(2, 6), UnitStart(4, 8), UnitStart(5, 9)]
    assert store.units_after("shop", 1, 2) == [UnitStart(2, 6), UnitStart(4, 8)]
    assert events_of_units(store) == {"a": ["a", "c", "f"], "b": ["b"], "d": ["d"], "e": ["e"]}
    assert list(store.decisions_of_units([], 1)) == []
    first_two = store.decisions_of_units([1, 2, 4], 2)
    assert [(first, logged.decision.event_id) for first, logged in first_two] == [
        (1, "a"),
        (2, "b"),
        (1, "c"),
        (4, "d"),
    ]
    assert [store.count_units("shop", after, 3) for after in (0, 1, 2, 6)] == [2, 2, 2, 0]
    assert store.latest_of_unit("shop", "new", 1) == []
    with pytest.raises(InvalidInput, match="limit must be"):
        store.units_after("shop", 0, 0)


def test_slots_of_an_event_are_one_unit(store: EventStore) -> None:
    first, *later = decisions_of_slots("a", "012")
    store.append_blocking([first, *decisions_of_slots("b", "01", unit="x")])
    store.append_blocking([*later, *decisions_of_slots("c", "01", unit="x")])
    store.append_blocking(decisions_of_slots("d", "01", unit="x", alone=True))
    assert events_of_units(store) == {"a": ["a"] * 3, "b": ["b"] * 2 + ["c"] * 2, "d": ["d"] * 2}


def test_loops_have_units_of_their_own(store: EventStore) -> None:
    store.append_blocking([decision("a", unit="x"), decision("b", unit="x", loop="other"), decision("c", unit="x")])
    assert events_of_units(store) == {"a": ["a", "c"]}
    assert events_of_units(store, "other") == {"b": ["b"]}
    store.delete_loop("shop")
    store.create_loop("shop", 1, {IDENTITY: b"salt"})
    created = store.versions_of(IDENTITY)["shop"]
    again = decision("d", unit="x", learned_through=created)
    store.append_blocking([again, decision("e", unit="x", loop="other")])
    assert events_of_units(store) == {"d": ["d"]}
    assert events_of_units(store, "other") == {"b": ["b", "e"]}


def test_the_latest_decisions_of_a_unit_are_found(store: EventStore) -> None:
    store.append_blocking([decision(str(i), i, unit="x" if i % 2 else "y") for i in range(20)])
    store.append_blocking([decision("alone", unit="x", alone=True), reward("19", 20)])
    latest = store.latest_of_unit("shop", "x", 3)
    assert [logged.decision.event_id for logged in latest] == ["19", "17", "15"]
    assert not latest[0].rewards
    assert [logged.decision.event_id for logged in store.latest_of_unit("shop", "y", 99)][-2:] == ["2", "0"]
    assert store.latest_of_unit("other", "x", 3) == store.latest_of_unit("shop", "", 3) == []


def test_a_unit_that_comes_back_is_not_new(store: EventStore) -> None:
    store.append_blocking([decision("a", 1, unit="x"), decision("b", 2, unit="x"), decision("c", 3, unit="y")])
    assert store.delete_log("shop", before=2) == 1
    assert store.units_after("shop", 0, 9) == [UnitStart(3, 3)]
    assert [logged.decision.event_id for logged in store.latest_of_unit("shop", "x", 9)] == ["b"]
    store.delete_log("shop", reset_counts=True)
    store.append_blocking([decision("a", WAIT, unit="x"), decision("z", WAIT, unit="z")])
    assert events_of_units(store) == {"z": ["z"]}
    assert [logged.decision.event_id for logged in store.latest_of_unit("shop", "x", 9)] == ["a"]
    assert statuses(store, metric("a", "returned", timestamp=WAIT + 2)) == [LATE]


def test_a_unit_begins_once_with_several_writers(store: EventStore, opened: Callable[[], EventStore]) -> None:
    def write(own: EventStore, writer: int) -> None:
        for turn in range(20):
            own.append_blocking([decision(f"{writer}-{turn}-{unit}", unit=f"{turn}-{unit}") for unit in range(5)])

    with closing(opened()) as other, ThreadPoolExecutor() as pool:
        list(pool.map(write, (store, other, store), range(3)))
    units = events_of_units(store)
    assert len(units) == 100
    assert all(len(events) == 3 for events in units.values())


def test_a_decision_has_a_number_of_each_metric_and_key(store: EventStore) -> None:
    events: list[Event] = [decision("e", reward_range=(0.0, 1.0)), decision("f")]
    numbers = [metric("e", "ms", 120.0), metric("e", "returned", 0.0), metric("e", "ms", 90.0, key="k"), reward("e")]
    assert statuses(store, *events, *numbers, metric("e", "ms", 1.0)) == [*[ACCEPTED] * 6, DUPLICATE]
    repeated = [metric("e", "ms", 7.0), metric("e", "ms", key="k"), metric("f", "ms"), reward("e", key="k")]
    assert statuses(store, *repeated) == [DUPLICATE, DUPLICATE, ACCEPTED, ACCEPTED]
    assert statuses(store, metric("?", "ms")) == [EventStatus.UNKNOWN]
    logged = store.decision("shop", "e")
    assert logged is not None
    assert [(each.metric, each.key, each.value) for each in logged.rewards] == [
        ("ms", "", 120.0),
        ("returned", "", 0.0),
        ("ms", "k", 90.0),
        ("", "", 1.0),
        ("", "k", 1.0),
    ]
    assert logged.settled().rewards == ((1, 1.0), (1, 1.0))
    assert store.reward_bounds("shop") == (1.0, 1.0)
    summary = store.summary("shop")
    assert (summary.metrics[ACCEPTED], summary.metrics[DUPLICATE], summary.metrics[EventStatus.UNKNOWN]) == (4, 3, 1)
    assert summary.rewards[ACCEPTED] == 2


def test_the_window_of_a_metric_begins_with_the_unit(store: EventStore) -> None:
    store.append_blocking([decision("a", 0, unit="x"), decision("b", WAIT, unit="x"), decision("c", WAIT)])
    assert store.seal("shop", 0, 9 * WAIT, 9) == 3  # a sealed decision has no more rewards, but metrics
    late, in_time = metric("b", "ms", timestamp=WAIT + 1), metric("b", "ms", timestamp=WAIT)
    assert statuses(store, late, replace(late, timestamp=9 * WAIT)) == [LATE, DUPLICATE]
    assert statuses(store, in_time, in_time, late) == [ACCEPTED, DUPLICATE, DUPLICATE]
    assert statuses(store, metric("c", "ms", timestamp=2 * WAIT), reward("c", WAIT)) == [ACCEPTED, LATE]
    assert statuses(store, metric("a", "year", timestamp=9 * WAIT, window=9 * WAIT)) == [ACCEPTED]


def test_metrics_of_slots_are_of_the_slot(store: EventStore) -> None:
    store.append_blocking(decisions_of_slots("e", "01"))
    assert statuses(store, metric("e", "ms", slot="1"), metric("e", "ms", slot="0")) == [ACCEPTED] * 2
    assert statuses(store, metric("e", "ms", slot="2")) == [EventStatus.UNKNOWN]
    store.append_blocking([replace(reward("e", slot="0"), cascade=True)])
    assert [len(logged.rewards) for logged in store.decisions_of("shop", "e")] == [2, 2]
    assert [logged.settled().observed for logged in store.decisions_of("shop", "e")] == [True, False]


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_metrics_without_a_slot_are_of_the_first_slot(store: EventStore, in_one_batch: bool) -> None:
    numbers = [metric("e", "ms", slot="s"), metric("e", "ms"), metric("e", "ms"), metric("e", "ms", slot="t")]
    events: list[Event] = [*decisions_of_slots("e", "ts", unit="x"), *numbers]
    batches = [events] if in_one_batch else [[event] for event in events]
    found = [status for batch in batches for status in statuses(store, *batch)]
    assert found == [*[ACCEPTED] * 4, DUPLICATE, DUPLICATE]
    assert [len(logged.rewards) for logged in store.decisions_of("shop", "e")] == [1, 1]
    assert statuses(store, reward("e")) == [EventStatus.UNKNOWN]


def test_metrics_that_cannot_be_written_are_refused(store: EventStore) -> None:
    for bad in (metric("a", "\0"), metric("a", "\ud800"), metric("a", "ms", float("inf"))):
        with pytest.raises(InvalidInput, match="must"):
            store.append_blocking([decision("a"), bad])
    assert statuses(store, decision("a"), metric("a", "\N{SNOWMAN} 'ms'")) == [ACCEPTED] * 2
    assert statuses(store, metric("a", "\N{SNOWMAN} 'ms'")) == [DUPLICATE]


def test_deleted_decisions_take_their_metrics_along(store: EventStore) -> None:
    store.append_blocking([decision("a", unit="x"), metric("a", "ms")])
    store.delete_log("shop")
    assert store.check() == []
    assert statuses(store, decision("a", unit="x"), metric("a", "ms")) == [ACCEPTED] * 2


def test_contradicting_units_are_found(opened: Callable[[], EventStore]) -> None:
    with closing(opened()) as store:
        store.append_blocking([decision("a", unit="x"), decision("b", unit="x"), decision("c")])
        for change in ("unit_since = 7 WHERE sequence = 2", "unit = 3 WHERE sequence = 1"):
            with store._changing("decisions") as connection:
                store._execute(connection, f"UPDATE decisions SET {change}")
            assert store.check() == ["decisions that contradict the first one of their unit"]
            with store._changing("decisions") as connection:
                store._execute(connection, "UPDATE decisions SET unit = 1, unit_since = 0 WHERE sequence < 3")
            assert store.check() == []
        with store._changing("decisions") as connection:
            store._execute(connection, "UPDATE units SET first = 99")
        assert store.check() == ["events above the last sequence number"]


def test_queries_of_units_use_indexes(store: EventStore) -> None:
    """A query that reads all rows would be slow in a large log, and no other test would notice."""
    store.append_blocking([decision(str(i), unit=str(i % 7)) for i in range(50)])
    statements: list[str] = []
    execute = store._execute

    def explained(connection: object, statement: str, *parameters: object) -> object:
        explain = "EXPLAIN QUERY PLAN " if store.parameter_mark == "?" else "EXPLAIN "
        statements.extend(str(row) for row in execute(connection, explain + statement, *parameters))
        return execute(connection, statement, *parameters)

    store._execute = explained  # type: ignore[assignment, method-assign]
    try:
        store.units_after("shop", 3, 10)
        list(store.decisions_of_units([1, 2], 3))
        store.count_units("shop", 3, 10)
        store.latest_of_unit("shop", "1", 3)
    finally:
        store._execute = execute  # type: ignore[method-assign]
    assert any("decisions_by_unit" in line for line in statements)
    assert not [line for line in statements if "SCAN decisions" in line or "Seq Scan" in line]


def test_a_batch_may_have_many_decisions_of_new_units(store: EventStore) -> None:
    made: list[Decision] = [decision(str(i), unit=str(i % 150)) for i in range(450)]
    store.append_blocking(made)
    assert [len(events) for events in events_of_units(store).values()] == [3] * 150
