"""Decisions beyond the retention are deleted, and a wrong clock deletes nothing."""

from pathlib import Path

import numpy as np
import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.retention import DAY, HOUR, NOTICE_HOURS, Retention
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run

NAMES = ("day0", "day1", "day2", "day3")


class World:
    """A loop with a decision on each of four days, of which a decision waits for a day for its reward."""

    def __init__(self, folder: Path, retention_days: int, *, learns: bool = True) -> None:
        self.now = DAY
        self.service = Service(SqliteStore(folder / "store.db"), clock=lambda: self.now)
        self.loop = self.service.loop("default")
        self.loop.configure(LoopConfig(width=2, reward_wait=86_400.0, retention_days=retention_days))
        for name in NAMES:
            run(self._decide(name))
            self.now += DAY
            if learns:
                self.loop.learn()
        self.elapsed = 0.0
        self.retention = self.restarted()

    def restarted(self) -> Retention:
        """What another process has."""
        return Retention(self.service, lambda: self.elapsed)

    def wait(self, hours: int) -> None:
        self.now += hours * HOUR
        self.elapsed += hours * 3600.0

    def look_twice(self) -> None:
        """Announce, and delete."""
        self.retention.look()
        self.wait(NOTICE_HOURS)
        self.retention.look()

    async def _decide(self, name: str) -> None:
        arms = np.eye(2).tobytes()
        await self.service.decide(
            "default", DecisionRequest(event_id=name, request=arms, encoding=DENSE, actions=("x", "y"))
        )

    def kept(self) -> list[str]:
        """The decisions that are in the log."""
        return [name for name in NAMES if self.service.store.decision("default", name) is not None]


def test_decisions_beyond_the_retention_are_deleted_after_an_announcement(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=2)
    world.retention.look()
    assert world.kept() == list(NAMES)
    world.wait(NOTICE_HOURS - 1)
    world.retention.look()
    assert world.kept() == list(NAMES)
    world.wait(1)
    world.retention.look()
    assert world.kept() == ["day1", "day2", "day3"]  # the model that decided on day 2 had not learned day 1
    result = verify(world.service.store, "default")
    assert (result.decisions, result.unchecked, result.different) == (2, 1, 0)  # those within the retention
    run(world.service.close())


def test_unlearned_decisions_stay(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=1, learns=False)
    world.look_twice()
    assert world.kept() == list(NAMES)
    world.loop.learn()
    world.look_twice()
    assert world.kept() == []
    run(world.service.close())


def test_nothing_is_deleted_by_default(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=-1)
    world.look_twice()
    assert world.kept() == list(NAMES)
    run(world.service.close())


def test_a_start_with_a_wrong_clock_deletes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=30)
    world.retention.look()
    world.now += 1000 * DAY  # a start with a clock that is ahead
    restarted = world.restarted()
    for _ in range(NOTICE_HOURS - 1):
        restarted.look()
        world.wait(1)
    world.now -= 1000 * DAY  # it is corrected
    for _ in range(2 * NOTICE_HOURS):
        restarted.look()
        world.wait(1)
    assert world.kept() == list(NAMES)
    assert verify(world.service.store, "default").decisions == len(NAMES)
    run(world.service.close())


def test_an_announcement_of_another_process_counts(tmp_path: Path) -> None:
    world = World(tmp_path, retention_days=2)
    world.retention.look()
    world.wait(NOTICE_HOURS)
    world.restarted().look()
    assert world.kept() == ["day1", "day2", "day3"]
    run(world.service.close())


def test_an_error_in_one_loop_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(SqliteStore(tmp_path / "store.db"), ("a", "b", "c"))
    called = list[str]()

    def fail(name: str) -> None:
        called.append(name)
        raise StoreError(f"{name} failed")

    for loop in service.loops.values():
        loop.configure(LoopConfig(width=2, retention_days=1))
    monkeypatch.setattr(service.store, "last_sequence", lambda name, **_: fail(name))
    with pytest.raises(StoreError, match="failed"):
        Retention(service).look()
    assert sorted(called) == ["a", "b", "c"]
    run(service.close())
