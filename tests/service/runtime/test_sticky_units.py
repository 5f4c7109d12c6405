"""Sticky units: the same action again, with the probabilities of its draw."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from glbandits.common.errors import InvalidInput
from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import Decision, DecisionRequest, Event, Group, LoggedDecision, Mode, Receipt
from glbandits.service.domain.groups.experiment import Control
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime import sticky_draws
from glbandits.service.runtime.loops.guardrails import Fallback, GuardrailState
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import DEFAULT_LOOP, Service
from glbandits.service.storage.sqlite_store import SqliteStore

pytestmark = pytest.mark.usefixtures("plain_python")

ACTIONS = ("tea", "cola", "milk", "rum")
ALL_RANDOM: dict[str, Any] = {"width": 4, "exploration": 1.0, "reward_wait": 10.0}


class BlockingStore(SqliteStore):
    """Its reads of units may block or fail, and its writes may block."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.failure = ""
        self.may_read, self.may_write = threading.Event(), threading.Event()
        self.may_read.set()
        self.may_write.set()

    def latest_of_unit(self, loop_name: str, unit: str, limit: int) -> list[LoggedDecision]:
        assert self.may_read.wait(10)
        if self.failure:
            raise StoreError(self.failure)
        return super().latest_of_unit(loop_name, unit, limit)

    async def append(self, events: Sequence[Event]) -> list[Receipt]:
        await asyncio.to_thread(self.may_write.wait, 10)
        return await super().append(events)


class World:
    """A service with a clock that tests set."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.now, self.path = 1_000_000, path
        self.runner = asyncio.Runner()
        self.open()
        self.configure(**settings)

    def open(self) -> None:
        self.store = BlockingStore(self.path)
        self.service = Service(self.store, clock=self._tick)
        self.loop = self.service.loop(DEFAULT_LOOP)

    def restart(self) -> None:
        self.runner.run(self.service.close())
        self.open()

    def configure(self, **settings: Any) -> None:
        self.loop.configure(LoopConfig(**ALL_RANDOM | settings))

    def _tick(self) -> int:
        self.now += 1
        return self.now

    async def ask(self, event_id: str, actions: Sequence[str] = ACTIONS, **more: Any) -> Decision:
        features = np.eye(4)[: len(actions)]
        asked: dict[str, Any] = {"unit": "ann", "sticky": True} | more
        request = DecisionRequest(
            event_id=event_id, request=features.tobytes(), encoding=DENSE, actions=tuple(actions), **asked
        )
        return (await self.service.decide(DEFAULT_LOOP, request)).decision

    def decide(self, event_id: str, actions: Sequence[str] = ACTIONS, **more: Any) -> Decision:
        return self.runner.run(self.ask(event_id, actions, **more))

    async def ask_ranking(self, event_id: str, positions: int, **more: Any) -> list[Decision]:
        asked: dict[str, Any] = {"event_id": event_id, "actions": ACTIONS, "unit": "ann", "sticky": True} | more
        request, slots = np.eye(4).tobytes(), map(str, range(positions))
        requests = [DecisionRequest(slot=slot, request=request, encoding=DENSE, **asked) for slot in slots]
        return [result.decision for result in await self.service.decide_slots(DEFAULT_LOOP, requests)]

    def rank(self, event_id: str, positions: int, **more: Any) -> list[Decision]:
        return self.runner.run(self.ask_ranking(event_id, positions, **more))


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "events.db")
    yield world
    world.store.may_read.set()
    world.store.may_write.set()
    world.runner.run(world.service.close())
    assert verify(SqliteStore(tmp_path / "events.db"), DEFAULT_LOOP).sound
    world.runner.close()


def shown(decision: Decision) -> str:
    return decision.actions[decision.shown]


def test_a_sticky_unit_gets_its_action_again(world: World) -> None:
    first = world.decide("0")
    assert (first.repeats, first.is_drawn, first.sticky) == ("", True, True)
    for number in range(1, 12):
        again = world.decide(str(number), ACTIONS[number % 4 :] + ACTIONS[: number % 4])
        assert shown(again) == shown(first)
        assert (again.repeats, again.is_drawn) == ("0", False)
        assert again.probability == first.probability == again.probabilities[again.shown]
        assert again.chosen == again.shown


def test_probabilities_are_in_the_order_of_the_request(world: World) -> None:
    world.configure(exploration=0.4)
    world.loop.published.bandit.learn(np.eye(4)[1], 1.0)  # the actions are no longer alike
    first = world.decide("0")
    world.service._decisions._draws = sticky_draws.StickyDraws(world.store)
    again = world.decide("1", ACTIONS[::-1])
    assert again.repeats == "0"
    assert again.probabilities == first.probabilities[::-1]
    assert len(set(first.probabilities)) > 1
    world.store.delete_log(DEFAULT_LOOP)  # the model of this test is not in the log


def test_other_units_actions_and_requests_draw_anew(world: World) -> None:
    world.decide("0")
    assert [world.decide(f"{unit}", unit=unit).repeats for unit in ("bob", "eve")] == ["", ""]
    assert world.decide("fewer", ACTIONS[:3]).repeats == ""
    assert world.decide("plain", sticky=False).repeats == ""
    nobody = world.decide("nobody", unit="")
    assert (nobody.repeats, nobody.sticky) == ("", False)
    assert world.decide("1").repeats == "plain"  # the newest draw


def test_rankings_of_a_unit_at_the_same_time_are_the_same(world: World) -> None:
    async def both(unit: str) -> list[list[Decision]]:
        return await asyncio.gather(*(world.ask_ranking(f"{unit}-{number}", 3, unit=unit) for number in range(3)))

    for unit in map(str, range(10)):
        first, *others = ([shown(each) for each in ranking] for ranking in world.runner.run(both(unit)))
        assert others == [first, first]


def test_a_loop_may_be_sticky_for_all_units(world: World) -> None:
    world.configure(sticky=True)
    first = world.decide("0", sticky=False)
    again = world.decide("1", sticky=False)
    assert (again.repeats, again.sticky, shown(again)) == ("0", True, shown(first))


def test_a_draw_expires_after_its_time_also_if_it_was_repeated(world: World) -> None:
    world.configure(sticky_for=100.0)
    world.decide("0")
    for number in range(1, 4):
        world.now += 30_000_000
        assert world.decide(str(number)).repeats == "0"
    world.restart()
    assert world.decide("4").repeats == "0"
    world.now += 30_000_000
    assert world.decide("5").repeats == ""
    assert world.decide("6").repeats == "5"


def test_a_restarted_service_repeats_draws_of_the_log(world: World) -> None:
    first = world.decide("0")
    assert world.decide("1").repeats == "0"
    world.restart()
    again = world.decide("2")
    assert (again.repeats, shown(again), again.unit) == ("0", shown(first), first.unit)
    assert world.decide("3").repeats == "0"


def test_an_excluded_action_is_drawn_anew_and_the_older_draw_comes_back(world: World) -> None:
    first = world.decide("0")
    second = world.decide("1", excluded=(first.shown,))
    assert second.repeats == ""
    assert shown(second) != shown(first)
    assert world.decide("2").repeats == "1"
    assert world.decide("3", excluded=(second.shown,)).repeats == "0"


def test_fallback_and_other_modes_repeat_nothing(world: World) -> None:
    drawn = world.decide("0", ACTIONS, excluded=(0,))
    world.loop.guardrails.state = GuardrailState(fallback=Fallback(1, "ms", "stopped by a test"))
    assert [(each.shown, each.repeats) for each in (world.decide("1"), world.decide("2"))] == [(0, "")] * 2
    world.loop.guardrails.state = GuardrailState()
    again = world.decide("3")
    assert (again.repeats, again.shown) == ("0", drawn.shown)
    world.configure(mode=Mode.APPRENTICE)
    assert [world.decide(name).repeats for name in ("4", "5")] == ["", ""]
    world.configure()
    assert world.decide("6").repeats == "0"


def test_draws_of_another_group_are_not_repeated(world: World) -> None:
    world.decide("0")
    world.configure(control=Control(share=0.5, show="uniform"))
    first, second = world.decide("1"), world.decide("2")
    assert [first.repeats, second.repeats] == ["", "1"]
    other = next(unit for unit in map(str, range(50)) if world.decide(f"of {unit}", unit=unit).group is not first.group)
    again = world.decide("again", unit=other)
    assert again.repeats == f"of {other}"
    control = again if again.group is Group.CONTROL else world.decide("3")
    assert control.probability == 0.25
    assert not control.is_drawn


def test_simultaneous_requests_of_a_unit_agree(world: World) -> None:
    async def all_at_once(name: str, count: int) -> list[Decision]:
        return await asyncio.gather(*(world.ask(f"{name}-{number}", unit=name) for number in range(count)))

    for name in map(str, range(5)):
        decisions = world.runner.run(all_at_once(name, 20))
        (draw,) = (each for each in decisions if not each.repeats)
        assert {each.repeats for each in decisions} == {"", draw.event_id}
        assert len({each.shown for each in decisions}) == 1


def test_first_draws_follow_the_logged_probabilities(world: World) -> None:
    """False alarms: 1 in 1,000, and none with these ids."""
    world.configure(exploration=0.5)
    first = [world.decide(f"{unit}-0", unit=f"unit {unit}") for unit in range(400)]
    again = [world.decide(f"{unit}-1", unit=f"unit {unit}") for unit in range(400)]
    assert [each.shown for each in first] == [each.shown for each in again]
    expected = np.sum([each.probabilities for each in first], axis=0)
    assert chisquare([sum(each.shown == arm for each in first) for arm in range(4)], expected).pvalue > 1e-3


def test_a_repeated_event_returns_its_first_decision(world: World) -> None:
    first = world.decide("0")
    assert world.decide("0") == first
    repeat = world.decide("1")
    assert world.decide("1") == repeat
    world.restart()
    assert [world.decide("0"), world.decide("1")] == [first, repeat]
    assert world.decide("2").repeats == "0"
    with pytest.raises(InvalidInput, match="decided before"):
        world.decide("0", unit="bob")


def test_a_slow_or_failing_store_means_a_new_draw(world: World) -> None:
    world.decide("0")
    world.restart()
    world.store.may_read.clear()
    began = time.monotonic()
    decision = world.decide("1")
    assert decision.repeats == ""
    assert time.monotonic() - began < 5
    world.store.may_read.set()
    world.restart()
    world.store.failure = "the disk is gone"
    assert world.decide("2").repeats == ""


def test_positions_of_a_ranking_repeat_their_own_draws(world: World) -> None:
    first = world.rank("0", 3)
    world.restart()
    again = world.rank("1", 3)
    assert [each.shown for each in again] == [each.shown for each in first]
    assert {each.repeats for each in again} == {"0"}
    assert [each.probability for each in again] == [each.probability for each in first]
    without = world.rank("2", 3, excluded=(first[0].shown,))
    assert len({each.shown for each in without}) == 3
    assert without[0].repeats == ""
    assert world.decide("single").repeats == ""


def test_memory_of_draws_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sticky_draws, "MOST_ACTIONS", 10)
    for unit in "abcdef":
        world.decide(unit, unit=unit)
    draws = world.service._decisions._draws
    assert (len(draws._recent), draws._actions) == (2, 8)
    assert world.decide("again", unit="a").repeats == "a"


def test_a_decision_that_is_not_written_is_not_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> list[Receipt]:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "append", refuse)
        with pytest.raises(StoreError, match="cannot write"):
            world.decide("lost")
    assert world.decide("0").repeats == ""


@pytest.fixture(name="other")
def other_fixture(world: World) -> Iterator[World]:
    """Another process with the same store."""
    other = World(world.path)
    yield other
    other.runner.run(other.service.close())
    other.runner.close()


def test_processes_agree_after_an_action_was_excluded(world: World, other: World) -> None:
    first = world.decide("0")
    assert other.decide("1").repeats == "0"
    second = other.decide("2", excluded=(first.shown,))
    assert (second.repeats, second.unit) == ("", first.unit)
    assert [each.decide(f"{name}").repeats for name, each in enumerate([world, other] * 3, 3)] == ["2"] * 6
    assert world.decide("9", excluded=(second.shown,)).repeats == "0"
    assert [each.decide(name).repeats for name, each in (("10", world), ("11", other))] == ["2"] * 2


def test_processes_agree_after_a_race(world: World, other: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sticky_draws.StickyDraws, "read", lambda *_: None)  # the store does not have the other draw yet
        drawn = [each.decide(name) for name, each in (("0", world), ("1", other))]
        assert [each.repeats for each in drawn] == ["", ""]
    for name in range(2, 8):
        again = (world, other)[name % 2].decide(str(name))
        assert (again.repeats, again.shown) == ("1", drawn[1].shown)


def test_a_draw_in_memory_is_repeated_if_the_store_does_not_answer(world: World) -> None:
    world.decide("0")
    world.store.failure = "the disk is gone"
    assert world.decide("1").repeats == "0"


def test_a_draw_is_found_after_many_repeats_and_other_decisions(world: World) -> None:
    world.decide("1", excluded=(world.decide("0").shown,))
    assert {world.decide(f"again {number}").repeats for number in range(15)} == {"1"}
    for number in range(30):
        world.decide(f"other {number}", ACTIONS[:3])
    assert world.decide("2").repeats == "1"
    assert world.decide("other", ACTIONS[:3]).repeats == "other 0"
