"""Moving stores: SQLite to PostgreSQL, back, and to another file."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Event
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import microseconds
from glbandits.service.storage import move as moving
from glbandits.service.storage.action_sets import SHARED_BYTES
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.move import move
from glbandits.service.storage.open_store import open_store
from tests.cli.in_process import glb
from tests.service.helpers import activation, decision, decisions_of_slots, metric, reward
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop
from tests.service.storage.postgres.postgres_server import PostgresServer


@pytest.fixture(name="source")
def source_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventStore]:
    """A store with a loop that has learned, events of every kind, and a key."""
    monkeypatch.setattr(moving, "BATCH", 7)
    loop, store = small_loop(tmp_path, clock := Clock())
    made = play_rounds(loop, store, clock, 55)
    assert loop.delete_log(made[25].timestamp) == 20
    store.append_blocking([decision("e", reward_range=(-1.0, 1 / 3)), decision("f", slot="\u0416"), decision("g")])
    large = {"request": bytes(2 * SHARED_BYTES), "encoding": "dense"}
    store.append_blocking(decisions_of_slots("r", "01", values=(1.0, 2.0, 3.0), costs=(0.1, 0.0, 0.0), **large))
    store.append_blocking([replace(reward("r", slot="0"), cascade=True)])
    store.append_blocking([reward("e", value=1 / 3, key="k"), reward("f", slot="\u0416"), activation("g"), reward("?")])
    store.append_blocking([decision("u", unit="x"), decision("v", unit="x"), metric("v", "ms"), metric("e", "ms")])
    store.seal_metrics("shop", {"ms": 1})
    Keys(store, microseconds).create("shop")
    with closing(store):
        yield store


@pytest.fixture(name="target")
def target_fixture(new_address: Callable[[], str]) -> Iterator[EventStore]:
    with closing(open_store(new_address(), durability="process")) as target:
        yield target


def test_all_data_is_moved(source: EventStore, target: EventStore) -> None:
    contents = move(source, target)
    assert {name: contents[name].rows for name in ("decisions", "action_sets", "activations", "units")} == {
        "decisions": 42,
        "action_sets": 1,
        "activations": 1,
        "units": 1,
    }
    assert target.latest_of_unit("shop", "x", 9) == source.latest_of_unit("shop", "x", 9)
    assert target.check() == []
    for loop_name in ("default", "shop"):
        assert target.summary(loop_name) == source.summary(loop_name)
        assert target.search(loop_name, "", 100) == source.search(loop_name, "", 100)
        assert target.latest_model(loop_name) == source.latest_model(loop_name)
    assert verify(target, "default").sound
    assert Keys(target, microseconds).live() == Keys(source, microseconds).live()
    more: list[Event] = [reward("e", value=0.1, key="k"), metric("e", "ms"), decision("new", unit="x")]
    assert target.append_blocking(more) == source.append_blocking(more)


def test_a_moved_store_is_moved_back(source: EventStore, target: EventStore, tmp_path: Path) -> None:
    there = move(source, target)
    with closing(open_store(str(tmp_path / "back.db"), durability="process")) as back:
        assert move(target, back) == there


def test_a_negative_zero_is_moved(source: EventStore, target: EventStore, tmp_path: Path) -> None:
    move(source, target)
    target.append_blocking([reward("e", value=-0.0, key="zero"), decision("zero", reward_range=(-0.0, 1.0))])
    with closing(open_store(str(tmp_path / "back.db"), durability="process")) as back:  # SQLite has no -0.0
        move(target, back)
        assert back.search("shop", "", 100) == target.search("shop", "", 100)


@pytest.mark.parametrize("batches", [0, 1, 5, 7, 12])
def test_an_interrupted_move_continues(
    source: EventStore, target: EventStore, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    insert, done = moving._insert, 0

    def interrupted(*args: object) -> None:
        nonlocal done
        if done == batches:
            raise KeyboardInterrupt
        done += 1
        insert(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(moving, "_insert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            move(source, target)
    with pytest.raises(StoreError, match="the move to this store is not complete"):
        Keys(target, lambda: 0)
    copied: list[str] = []
    contents = move(source, target, lambda what, _: copied.append(what))
    assert copied.count("copying decisions") == 6 - min(batches, 6)
    assert move(source, target) == contents  # a complete one only compares
    assert Keys(target, lambda: 0).live() == Keys(source, lambda: 0).live()


def test_a_changed_source_is_noticed(source: EventStore, target: EventStore) -> None:
    def change(what: str, done: int) -> None:
        if what == "copying rewards" and done == 7:
            source.append_blocking([decision("meanwhile")])

    with pytest.raises(StoreError, match="decisions has 43 rows, and the copy 42"):
        move(source, target, change)


def test_other_data_is_not_overwritten(source: EventStore, target: EventStore) -> None:
    target.append_blocking([decision("other")])
    with pytest.raises(InvalidInput, match="has other data"):
        move(source, target)
    assert target.decision("shop", "other") is not None


def test_an_empty_store_is_not_moved(target: EventStore, tmp_path: Path) -> None:
    with (
        closing(open_store(str(tmp_path / "empty.db"), durability="process")) as empty,
        pytest.raises(InvalidInput, match="is empty"),
    ):
        move(empty, target)


def test_a_store_in_use_is_not_moved(source: EventStore, target: EventStore, tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "events.sqlite"), durability="process")) as server:
        assert server.lease.keep()
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.1):
                server.lease.keep()

        learner = threading.Thread(target=beat)
        learner.start()
        try:
            with pytest.raises(InvalidInput, match="a server uses the store"):
                move(source, target)
        finally:
            stop.set()
            learner.join()


def test_the_command_moves_a_file_to_postgres(source: EventStore, postgres: PostgresServer, tmp_path: Path) -> None:
    source.close()
    address = postgres.new_address()
    for _ in range(2):
        run = glb("store", "move", address, "--store", "events.sqlite", folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert "decisions: 42 rows" in run.stdout
    replays = [glb("store", "verify", "--store", store, folder=tmp_path) for store in ("events.sqlite", address)]
    assert replays[0].returncode == replays[1].returncode
    assert replays[0].stdout == replays[1].stdout
