"""What the service promises while the store is slow."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest, Event, EventStatus, LoggedDecision, Receipt
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime.decision_writer import DecisionResult
from glbandits.service.runtime.service import DEFAULT_LOOP, Service
from glbandits.service.storage.event_store import ALL_REWARDS, RewardPage
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run

ACTIONS = ("tea", "cola")


class Holding(SqliteStore):
    """A store whose writes wait for `may_write`, and whose reads fail unless `readable`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.may_write = threading.Event()
        self.may_write.set()
        self.was_read = threading.Event()
        self.readable = True

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        self.was_read.set()
        try:
            assert await asyncio.to_thread(self.may_write.wait, 10)
        except asyncio.CancelledError:
            self.may_write.set()  # otherwise the end of the event loop would wait for the thread
            raise
        return await super().append(events)

    def decisions_of(self, loop: str, event_id: str, page: RewardPage = ALL_REWARDS) -> list[LoggedDecision]:
        if not self.readable:
            raise StoreError("the disk is gone")
        return super().decisions_of(loop, event_id, page)


class World:
    """A service whose clock goes on with each question, so that no two decisions are alike."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000_000
        self.store = Holding(folder / "events.db")
        self.service = Service(self.store, clock=self._tick)
        width = self.service.loop(DEFAULT_LOOP).published.bandit.dim
        self.request = np.eye(len(ACTIONS), width).tobytes()

    def _tick(self) -> int:
        self.now += 1
        return self.now

    async def decide(
        self, actions: Sequence[str] = ACTIONS, *, deferred: bool = False, event_id: str = "e"
    ) -> DecisionResult:
        """Ask for a decision."""
        question = DecisionRequest(
            event_id=event_id, request=self.request, encoding=DENSE, actions=tuple(actions), deferred=deferred
        )
        return await self.service.decide(DEFAULT_LOOP, question)


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.may_write.set()
    run(world.service.close())


def test_a_pending_event_gets_the_same_decision_again(world: World) -> None:
    async def ask() -> list[DecisionResult]:
        world.store.may_write.clear()
        results = [await world.decide(), *await asyncio.gather(world.decide(), world.decide())]
        world.store.may_write.set()
        while world.service.writer.depth:
            await asyncio.sleep(0.001)
        return [*results, await world.decide()]

    first, second, third, after = asyncio.run(ask())
    assert first.degraded
    assert first == second == third
    assert after == DecisionResult(first.decision, degraded=False)
    logged = world.store.decision(DEFAULT_LOOP, "e")
    assert logged is not None
    assert logged.decision == first.decision
    assert world.service.degraded == 3


def test_a_pending_event_with_another_request_is_refused(world: World) -> None:
    async def ask() -> None:
        await world.decide()
        with pytest.raises(InvalidInput, match="event 'e' was decided before with other"):
            await world.decide(("tea", "milk"))

    world.store.may_write.clear()
    asyncio.run(ask())


def test_a_logged_event_is_returned_with_a_slow_store(world: World) -> None:
    async def ask() -> None:
        first = await world.decide()
        world.store.may_write.clear()
        assert await world.decide() == first
        with pytest.raises(InvalidInput, match="was decided before"):
            await world.decide(("tea", "milk"))
        world.store.may_write.set()

    run(ask())
    assert world.service.degraded == 0


def test_decisions_continue_without_reading_the_store(world: World) -> None:
    async def ask() -> tuple[DecisionResult, DecisionResult]:
        return await world.decide(), await world.decide()

    world.store.may_write.clear()
    world.store.readable = False
    first, again = asyncio.run(ask())
    assert (first.degraded, again) == (True, first)


def test_a_refused_reward_is_not_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        await world.decide(event_id="first")
        world.store.may_write.clear()
        world.store.was_read.clear()
        held = asyncio.create_task(world.service.reward(DEFAULT_LOOP, "first", 1.0))
        await asyncio.to_thread(world.store.was_read.wait, 10)
        with pytest.raises(StoreError, match=r"The store took longer than 0\.05 s\. Nothing"):
            await world.service.reward(DEFAULT_LOOP, "first", 0.5)
        # The commit of the other had begun: it is not refused, though it takes longer.
        assert not held.done()
        world.store.may_write.set()
        assert await held is EventStatus.ACCEPTED

    monkeypatch.setattr("glbandits.service.runtime.service.REWARD_TIMEOUT", 0.05)
    asyncio.run(ask())
    logged = world.store.decision(DEFAULT_LOOP, "first")
    assert logged is not None
    assert [reward.value for reward in logged.rewards] == [1.0]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("deferred", "text"), [(True, "with deferred=true; send"), (False, "with deferred=false; send")]
)
def test_a_repeated_event_must_have_the_same_deferred(world: World, deferred: bool, text: str, slow: bool) -> None:
    async def ask() -> None:
        await world.decide(deferred=deferred)
        with pytest.raises(InvalidInput, match=text):
            await world.decide(deferred=not deferred)

    if slow:
        world.store.may_write.clear()
    asyncio.run(ask())
