import threading
from pathlib import Path

import numpy as np
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime import maintenance
from glbandits.service.runtime.maintenance import DAY, Maintenance, delete_old_events
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run

NAMES = ("day0", "day1", "day2", "day3")


class World:
    """A loop with a decision on each of four days, of which a decision waits for a day for its reward."""

    def __init__(self, folder: Path, retention_days: int) -> None:
        self.now = DAY
        self.service = Service(SqliteStore(folder / "store.db"), clock=lambda: self.now)
        self.loop = self.service.loop("default")
        self.loop.configure(LoopConfig(width=2, reward_wait=86_400.0, retention_days=retention_days))
        for name in NAMES:
            run(self._decide(name))
            self.now += DAY

    async def _decide(self, name: str) -> None:
        arms = np.eye(2).tobytes()
        await self.service.decide(
            "default", DecisionRequest(event_id=name, request=arms, encoding=DENSE, actions=("x", "y"))
        )

    def kept(self) -> list[str]:
        """The decisions that are in the log."""
        return [name for name in NAMES if self.service.store.decision("default", name) is not None]


def test_decisions_beyond_the_retention_are_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=2)
    world.loop.learn()
    delete_old_events(world.service)
    assert world.kept() == ["day2", "day3"]
    run(world.service.close())


def test_unlearned_decisions_stay(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=1)
    delete_old_events(world.service)
    assert world.kept() == list(NAMES)
    world.loop.learn()
    delete_old_events(world.service)
    assert world.kept() == ["day3"]
    run(world.service.close())


def test_nothing_is_deleted_by_default(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=-1)
    world.loop.learn()
    delete_old_events(world.service)
    assert world.kept() == list(NAMES)
    run(world.service.close())


def test_an_error_in_one_loop_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(SqliteStore(tmp_path / "store.db"), ("a", "b", "c"))
    called = list[str]()

    def fail(name: str) -> None:
        called.append(name)
        raise StoreError(f"{name} failed")

    for name, loop in service.loops.items():
        loop.configure(LoopConfig(width=2, retention_days=1))
        monkeypatch.setattr(loop, "delete_log", lambda _, name=name: fail(name))
    with pytest.raises(StoreError, match="failed"):
        delete_old_events(service)
    assert sorted(called) == ["a", "b", "c"]
    run(service.close())


class Failing:
    """Keys that cannot be read the first time."""

    def __init__(self) -> None:
        self.times, self.again = 0, threading.Event()

    def refresh(self) -> None:
        self.times += 1
        if self.times == 1:
            raise OSError("the disk is away")
        self.again.set()


def test_close_works_without_a_start(service: Service) -> None:
    Maintenance(service, Failing().refresh).close()


def test_keys_are_read_during_a_long_deletion(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(maintenance, "KEYS_EVERY", 0.01)
    monkeypatch.setattr(maintenance, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(maintenance, "delete_old_events", lambda _: done.wait(20))
    keys = Failing()
    housekeeper = Maintenance(service, keys.refresh)
    housekeeper.start()
    assert keys.again.wait(10)
    done.set()
    housekeeper.close()


def test_the_store_is_maintained(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied = threading.Event()
    monkeypatch.setattr(maintenance, "MAINTAIN_EVERY", 0.01)
    monkeypatch.setattr(service.store, "maintain", tidied.set)
    housekeeper = Maintenance(service, Failing().refresh)
    housekeeper.start()
    assert tidied.wait(10)
    housekeeper.close()
