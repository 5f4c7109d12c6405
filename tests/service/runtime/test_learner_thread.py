"""When the learner thread updates a loop."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime import service as service_module
from glbandits.service.runtime.loops import learning_loop
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_statistics import Window
from glbandits.service.runtime.service import DEFAULT_LOOP, Service
from glbandits.service.storage.document_store import Rows
from glbandits.service.storage.open_store import open_store
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run, wait_until

NEVER = 3600.0
"""Seconds that no test waits for."""
START = LoopConfig(width=2, model_update=NEVER)

Start = Callable[..., Loop]


@pytest.fixture(name="started")
def started_fixture(tmp_path: Path) -> Iterator[Start]:
    """Starts services over the same store, and returns the loop of each."""
    with ExitStack() as stack:

        def start(*, learns: bool = True) -> Loop:
            store = SqliteStore(tmp_path / "events.db")
            service = Service(store, first_configuration=START, learns=lambda: learns)
            stack.callback(lambda: run(service.close()))
            service.start()
            return service.loop(DEFAULT_LOOP)

        yield start


@pytest.fixture(name="updates")
def updates_fixture(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the threads do: "learn" and "refresh"."""
    done: list[str] = []

    def record(name: str, method: Callable[[Loop, float], object]) -> None:
        def recorded(loop: Loop, seconds: float = 0.0) -> None:
            method(loop, seconds)
            done.append(name)

        monkeypatch.setattr(Loop, name, recorded)

    record("learn", Loop.learn)
    record("refresh", Loop.refresh)
    return done


def test_a_shorter_interval_counts_at_once(started: Start, updates: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "LOOK_SECONDS", NEVER)
    loop = started()
    wait_until(lambda: updates == ["learn"])
    loop.configure(LoopConfig(width=2, model_update=0.0))
    wait_until(lambda: len(updates) > 1)


@pytest.mark.parametrize("learns", [True, False])
def test_only_the_process_that_learns_relearns(
    started: Start, updates: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, learns: bool
) -> None:
    monkeypatch.setattr(service_module, "LOOK_SECONDS", 0.01)
    loop = started(learns=learns)
    wait_until(lambda: len(updates) == 1)
    request = DecisionRequest(event_id="e", request=np.eye(2).tobytes(), encoding="dense", actions=("a", "b"))
    with closing(SqliteStore(tmp_path / "events.db")) as store:
        store.append_blocking([replace(loop.decide(request), timestamp=0)])
    loop.learn()
    loop.reconfigure(partial(replace, settings={"link": "identity", "half_life": 9}))
    assert loop.is_relearning
    if learns:
        wait_until(lambda: not loop.is_relearning)
    else:
        wait_until(lambda: "refresh" in updates[1:])  # has read the configuration
        assert loop.is_relearning


@pytest.mark.parametrize("learns", [True, False])
def test_a_configuration_of_another_process_is_read_before_the_next_update(
    started: Start, updates: list[str], monkeypatch: pytest.MonkeyPatch, learns: bool
) -> None:
    monkeypatch.setattr(service_module, "LOOK_SECONDS", 0.01)
    loop, other = started(learns=learns), started(learns=not learns)
    wait_until(lambda: sorted(updates) == ["learn", "refresh"])
    other.configure(LoopConfig(width=2, model_update=NEVER, exploration=0.5))
    wait_until(lambda: loop.configuration.exploration == 0.5)
    wait_until(lambda: len(updates) >= 4)  # each has read it
    assert not loop.has_newer_configuration()
    assert not other.has_newer_configuration()


def test_a_failing_look_is_followed_by_an_update(
    started: Start, updates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(Loop, "is_idle", False)
    started()
    wait_until(lambda: updates == ["learn"])
    looks: list[int] = []

    def look(_: Loop) -> bool:
        looks.append(1)
        if len(looks) == 1:
            raise StoreError("the disk is away")
        return False

    monkeypatch.setattr(Loop, "has_newer_configuration", look)
    wait_until(lambda: len(looks) > 3)
    assert updates == ["learn", "learn"], "one more, so that the failure does not stay until the next update"


def test_a_loop_does_not_wait_for_the_backlog_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "LEARN_SECONDS", 0.0)
    monkeypatch.setattr(learning_loop, "LEARNED_AT_ONCE", 5)
    store = SqliteStore(tmp_path / "events.db")
    service = Service(store, ("busy", "other"), first_configuration=START)
    for name, count in (("busy", 60), ("other", 1)):
        request = DecisionRequest(event_id="e", request=np.eye(2).tobytes(), encoding="dense", actions=("a", "b"))
        made = service.loop(name).decide(request)
        store.append_blocking([replace(made, event_id=str(number), timestamp=0) for number in range(count)])
    left = list[int]()
    learn = Loop.learn

    def recorded(loop: Loop, seconds: float) -> None:
        if learn(loop, seconds) and loop.name == "other":
            left.append(60 - service.loop("busy").statistics.view(Window.ALL).total.decisions)

    monkeypatch.setattr(Loop, "learn", recorded)
    service.start()
    wait_until(lambda: service.loop("busy").statistics.view(Window.ALL).total.decisions == 60)
    assert left == [55]  # the other loop learned after the first batch of the busy one
    run(service.close())


@pytest.mark.parametrize("learns", [True, False])
def test_idle_loops_cost_no_queries(
    new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch, learns: bool
) -> None:
    monkeypatch.setattr(service_module, "LEARNER_TICK", 0.02)
    store, queries = open_store(address := new_address(), durability="process"), list[str]()
    settings = LoopConfig(width=2, model_update=0.05, reward_wait=0.1, control=Control(share=0.5), reward_range=(0, 1))
    names = [f"loop-{number}" for number in range(20)]
    service = Service(store, names, first_configuration=settings, learns=lambda: learns)
    execute = store._execute

    def counted(connection: Any, statement: str, *parameters: object) -> Rows:
        queries.append(statement)
        return execute(connection, statement, *parameters)

    monkeypatch.setattr(store, "_execute", counted)
    service.start()

    def is_quiet() -> bool:
        queries.clear()
        time.sleep(0.3)
        return bool(queries) and len(queries) < 2 * 0.3 / 0.02 + 5

    wait_until(is_quiet)
    with closing(open_store(address, durability="process")) as other_store:  # another process
        other = Loop("loop-7", other_store, service.clock)
        other.configure(replace(settings, exploration=0.4))
        wait_until(lambda: service.loop("loop-7").configuration.exploration == 0.4)
        request = DecisionRequest(event_id="e", request=np.eye(2).tobytes(), encoding="dense", actions=("a", "b"))
        other_store.append_blocking([replace(other.decide(request), timestamp=0)])
        if not learns:
            other.learn()
        wait_until(lambda: service.loop("loop-7").published.learned_through > 0)
    run(service.close())


def test_guardrails_do_not_wait_for_the_next_model(
    started: Start, updates: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Loop, "is_idle", False)
    looks = list[int]()
    loop = started()
    wait_until(lambda: updates == ["learn"])
    monkeypatch.setattr(loop.guardrails, "look", lambda _, __, learned_through: looks.append(learned_through))
    wait_until(lambda: len(looks) > 2)
    assert updates == ["learn"]
