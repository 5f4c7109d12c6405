"""A wall clock that steps back or forward does not hold up learning."""

from pathlib import Path

import msgspec
import pytest

from glbandits.service.domain.events import EventStatus, Reward
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.log_watermarks import MAX_WATERMARKS, LogWatermarks
from glbandits.service.runtime.replay.replay_verification import verify
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, small_loop

DAY = 24 * 60 * 60.0
WINDOW = 10.0


class Stopwatch:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class World:
    """A loop whose wall clock can step, and whose monotonic clock cannot."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.stopwatch = Clock(), Stopwatch()
        _, self.store = small_loop(folder, self.clock, reward_wait=WINDOW)
        self.loop = self.another_process()

    def another_process(self) -> Loop:
        return Loop("default", self.store, self.clock, self.stopwatch)

    def decide(self, *names: str) -> None:
        self.store.append_blocking([ask(self.loop, name, CONTEXTS[0]) for name in names])

    def reward(self, name: str) -> EventStatus:
        sent = Reward(loop="default", event_id=name, timestamp=self.clock(), value=1.0)
        return self.store.append_blocking([sent])[0].status

    def wait(self, seconds: float) -> None:
        self.clock.wait(seconds)
        self.stopwatch.now += seconds


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("step", [-3600.0, -DAY])
def test_learning_continues_when_the_clock_steps_back(world: World, step: float) -> None:
    world.decide("a", "b")
    assert world.loop.learn() == 0
    world.clock.wait(step)
    world.wait(WINDOW / 2)
    world.decide("c")
    assert world.reward("a") is EventStatus.ACCEPTED
    assert world.loop.learn() == 0
    world.wait(WINDOW / 2 + 1)
    assert world.loop.learn() == 2
    assert world.reward("b") is EventStatus.LATE
    world.wait(WINDOW / 2)
    assert world.loop.learn() == 1
    assert verify(world.store, "default").sound


def test_learning_continues_after_a_wrong_day(world: World) -> None:
    world.clock.wait(DAY)
    world.decide("ahead")
    assert world.loop.learn() == 0
    world.clock.wait(-DAY)
    world.decide("after")
    world.wait(WINDOW / 2)
    assert world.loop.learn() == 0
    assert world.reward("ahead") is EventStatus.ACCEPTED
    world.wait(WINDOW / 2 + 1)
    assert world.loop.learn() == 2
    assert (world.reward("ahead"), world.reward("after")) == (EventStatus.LATE, EventStatus.LATE)
    assert verify(world.store, "default").sound


def test_a_restart_starts_the_window_again(world: World) -> None:
    world.decide("a")
    world.clock.wait(-DAY)
    again = world.another_process()
    assert again.learn() == 0
    world.wait(WINDOW + 1)
    assert again.learn() == 1


def test_a_shorter_window_applies_in_full(world: World) -> None:
    world.decide("a")
    world.loop.learn()
    world.wait(WINDOW / 2)
    world.clock.wait(-DAY)
    world.loop.reconfigure(lambda config: msgspec.structs.replace(config, reward_wait=1.0))
    assert world.loop.learn() == 0
    world.wait(0.5)
    assert world.loop.learn() == 0
    world.wait(1)
    assert world.loop.learn() == 1


def test_the_lag_is_right_when_the_clock_steps_back(world: World) -> None:
    world.decide("a")
    follower = world.another_process()
    follower.refresh()
    assert follower.learning_lag() == 0.0
    world.clock.wait(-DAY)
    world.wait(WINDOW + 5)
    assert follower.learning_lag() == pytest.approx(5.0)
    world.loop.refresh()
    world.wait(WINDOW + 1)
    assert world.loop.learn() == 1
    follower.refresh()
    assert follower.learning_lag() == 0.0


def test_watermarks_are_bounded_without_learning() -> None:
    marks = LogWatermarks(stopwatch := Stopwatch())
    for last in range(1, 10_000):
        stopwatch.now = float(last)
        marks.update(last, 0, WINDOW)
    assert marks.age_after(0) == 9_998.0
    assert 0 < marks.logged_for(WINDOW) < 9_999 - WINDOW
    assert marks.logged_for(9_000.0) >= 1
    marks.update(9_999, 9_999, WINDOW)
    assert (marks.age_after(9_999), marks.logged_for(0.0)) == (0.0, 0)
    assert MAX_WATERMARKS < 1_000


def test_no_decision_is_settled_before_its_window_is_over() -> None:
    marks = LogWatermarks(stopwatch := Stopwatch())
    logged = {}
    for last in range(1, 500):
        stopwatch.now += 0.07
        logged[last] = stopwatch.now
        marks.update(last, 0, WINDOW)
        through = marks.logged_for(WINDOW)
        assert not through or logged[through] < stopwatch.now - WINDOW
        if stopwatch.now > 1.1 * WINDOW:
            assert logged[through + 1] > stopwatch.now - 1.1 * WINDOW
