"""Changed settings: a new model learns the log again, while the present one decides."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.features import Category, FeatureMap
from glbandits.service.domain.events import DecisionRequest, Reward
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import ACTIONS, CONTEXTS, Clock, ask, loop_in, play_rounds, small_loop

SHORT = {"link": "identity", "half_life": 50}
UNIFORM = (1 / 3, 1 / 3, 1 / 3)


class World:
    """A loop that has learned 60 decisions, and learns them again in steps of 10."""

    def __init__(self, address: str) -> None:
        self.address, self.clock = address, Clock()
        self.store: EventStore = open_store(address, durability="process")
        self.loop = loop_in(self.store, self.clock)
        self.play(60, 0)

    def play(self, rounds: int, first: int) -> None:
        play_rounds(self.loop, self.store, self.clock, rounds, first=first)

    def finish(self) -> int:
        """Relearn to the end. Returns the number of steps."""
        steps = 0
        while self.loop.is_relearning:
            self.loop.relearn()
            steps += 1
        return steps

    def is_as_if_learned_so(self) -> bool:
        """Whether the model is that of a loop that always had these settings."""
        before = self.loop.published.bandit.state
        self.loop.relearn_whole_log(reset_model=False, progress=lambda _: None)
        return np.array_equal(self.loop.published.bandit.state, before)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.service.runtime.replay.relearning.BATCH", 10)


@pytest.fixture(name="world")
def world_fixture(new_address: Callable[[], str]) -> Iterator[World]:
    world = World(new_address())
    with closing(world.store):
        yield world


def test_present_model_decides_until_the_new_one_has_learned_all(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop, before = world.loop, ask(world.loop, "x", "noon").probabilities
    epoch = loop.published.epoch
    assert before != pytest.approx(UNIFORM)
    loop.reconfigure(partial(replace, settings=SHORT))
    assert loop.is_relearning
    loop.relearn()
    assert ask(loop, "x", "noon").probabilities == before
    world.play(20, 60)  # these are learned by both
    assert loop.is_relearning
    assert ask(loop, "x", "noon").epoch == epoch
    assert world.finish() > 5
    assert ask(loop, "x", "noon").probabilities != pytest.approx(UNIFORM)
    assert (loop.published.epoch, loop.published.bandit.policy) == (epoch + 1, Optimist(link="identity", half_life=50))
    assert "Loop default learns its log again" in caplog.text
    assert f"Epoch {epoch + 1} starts" in caplog.text
    world.play(20, 80)
    result = verify(world.store, "default")
    assert (result.sound, result.decisions, result.unchecked) == (True, 100, 0)
    assert world.is_as_if_learned_so()


def test_restart_begins_again(world: World) -> None:
    world.loop.reconfigure(partial(replace, settings=SHORT))
    world.loop.relearn()
    again = Loop("default", world.store, world.clock)
    assert (again.is_relearning, again.published.epoch) == (True, world.loop.published.epoch)
    world.loop = again
    assert world.finish() >= 6
    assert world.is_as_if_learned_so()


def test_later_change_supersedes_an_earlier_one(world: World) -> None:
    loop, epoch = world.loop, world.loop.published.epoch
    loop.reconfigure(partial(replace, settings=SHORT))
    loop.relearn()
    Loop("default", world.store, world.clock).reconfigure(partial(replace, settings={"link": "logistic"}))
    loop.refresh()
    world.finish()
    assert (loop.published.bandit.policy, loop.published.epoch) == (Optimist(link="logistic"), epoch + 1)
    assert world.is_as_if_learned_so()


def test_change_that_is_taken_back_keeps_the_model(world: World) -> None:
    loop, before, settings = world.loop, world.loop.published, world.loop.configuration.settings
    loop.reconfigure(partial(replace, settings=SHORT))
    loop.relearn()
    loop.reconfigure(partial(replace, settings=settings))
    assert not loop.is_relearning
    loop.relearn()
    assert loop.published is before


def test_change_during_the_last_step_is_not_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Loop("default", world.store, world.clock)
    world.loop.reconfigure(partial(replace, settings=SHORT))
    save, changes = world.store.save_documents, iter([partial(replace, settings={"link": "logistic"})])

    def overtaken(*arguments: object, **more: object) -> bool:
        for change in changes:
            other.reconfigure(change)
        return save(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(world.store, "save_documents", overtaken)
    world.finish()
    assert world.loop.published.bandit.policy == Optimist(link="logistic")


def test_other_processes_follow_and_see_the_progress(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.service.runtime.loops.model_replacement.PROGRESS_SECONDS", -1.0)
    with closing(open_store(world.address, durability="process")) as store:
        other = Loop("default", store, world.clock)
        other.reconfigure(partial(replace, settings=SHORT))
        assert other.relearning_progress() == (0, other.published.learned_through)
        world.loop.learn()
        for _ in range(3):
            world.loop.relearn()
        other.refresh()
        progress = other.relearning_progress()
        assert progress is not None
        assert 0 < progress[0] < progress[1]
        world.finish()
        other.refresh()
        assert (other.is_relearning, other.relearning_progress()) == (False, None)
        assert ask(other, "x", "noon") == replace(ask(world.loop, "x", "noon"), timestamp=world.clock.now - 1)


def test_nothing_is_deleted_while_relearning(world: World) -> None:
    world.loop.reconfigure(partial(replace, settings=SHORT))
    assert world.loop.delete_log(world.clock.now) == 0
    world.finish()
    assert world.loop.delete_log(world.clock.now) > 0


def test_deleted_decisions_are_not_given_up_in_silence(world: World) -> None:
    loop, before = world.loop, world.loop.configuration
    assert loop.delete_log(world.clock.now - 15_000_000) > 0
    with pytest.raises(InvalidInput, match='its log does not have all.*Send "resetModel": true'):
        loop.reconfigure(partial(replace, settings=SHORT))
    assert loop.configuration == before
    loop.reconfigure(partial(replace, settings=SHORT), reset_model=True)
    assert ask(loop, "x", "noon").probabilities == pytest.approx(UNIFORM)
    world.play(20, 60)
    loop.reconfigure(partial(replace, settings={"link": "identity"}))  # these 20 are in the log
    assert world.finish() >= 2
    assert verify(world.store, "default").sound


def test_reset_model_also_works_with_the_same_settings(world: World) -> None:
    epoch = world.loop.published.epoch
    world.loop.reconfigure(lambda current: current, reset_model=True)
    assert world.loop.published.epoch == epoch + 1
    assert ask(world.loop, "x", "noon").probabilities == pytest.approx(UNIFORM)


def test_fields_are_hashed_again_to_another_width(world: World) -> None:
    world.loop.reconfigure(partial(replace, width=5000))
    world.finish()
    assert (world.loop.published.bandit.dim, world.loop.published.bandit.sparse) == (5000, True)
    assert ask(world.loop, "x", "noon").probabilities != pytest.approx(UNIFORM)


def test_vectors_of_another_width_are_refused(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=2)
    request = DecisionRequest(event_id="e", request=np.eye(2).tobytes(), encoding="dense", actions=("a", "b"))
    loop.reconfigure(partial(replace, width=3))  # nothing is learned yet
    loop.reconfigure(partial(replace, width=2))
    store.append_blocking([loop.decide(request)])
    clock.wait(11)
    loop.learn()
    with pytest.raises(InvalidInput, match="its decisions have 2 features, and these"):
        loop.reconfigure(partial(replace, width=3))
    loop.reconfigure(partial(replace, width=3), reset_model=True)
    assert loop.published.bandit.dim == 3


def test_feature_map_is_kept_or_the_change_is_refused(tmp_path: Path) -> None:
    features = FeatureMap(arm={"topic": Category(ACTIONS)}, context={"time": Category(CONTEXTS)})
    Bandit(Optimist(link="identity"), features=features).save(tmp_path / "model.safetensors")
    store, clock = SqliteStore(tmp_path / "events.sqlite"), Clock()
    first = FirstModel.load(str(tmp_path / "model.safetensors"))
    loop = Loop("default", store, clock, first_configuration=LoopConfig(reward_wait=10.0), first_model=first)
    play_rounds(loop, store, clock, 40)
    with pytest.raises(InvalidInput, match=f"its decisions have {features.dim} features"):
        loop.reconfigure(partial(replace, width=64))
    loop.reconfigure(partial(replace, settings=SHORT))
    while loop.is_relearning:
        loop.relearn()
    assert loop.published.bandit.features == features
    assert loop.published.set_aside == 0
    assert ask(loop, "x", "noon").probabilities != pytest.approx(UNIFORM)


@pytest.mark.parametrize("trained", [True, False])
def test_model_file_is_not_given_up_in_silence(tmp_path: Path, trained: bool) -> None:
    bandit = Bandit(Optimist(link="identity"), dim=4, seed=1)
    if trained:
        bandit.learn(np.ones(4), 1.0)
    bandit.save(tmp_path / "model.safetensors")
    _, store = small_loop(tmp_path, clock := Clock())
    first = FirstModel.load(str(tmp_path / "model.safetensors"))
    loop = Loop("other", store, clock, first_configuration=LoopConfig(), first_model=first)
    change = partial(replace, settings=SHORT)
    if trained:
        with pytest.raises(InvalidInput, match="or it comes from a file"):
            loop.reconfigure(change)
    loop.reconfigure(change, reset_model=trained)
    assert (loop.published.bandit.policy, loop.is_relearning) == (Optimist(link="identity", half_life=50), False)


def test_a_link_that_cannot_learn_the_rewards_of_the_log_is_refused(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    decision = ask(loop, "large", "noon")
    store.append_blocking([decision, Reward(loop=loop.name, event_id="large", timestamp=clock(), value=50.0)])
    clock.wait(11)
    assert loop.learn() == 1
    logistic = replace(loop.configuration, settings={"link": "logistic"})
    with pytest.raises(InvalidInput, match="its rewards go from 50 to 50, and the link"):
        loop.configure(logistic)
    loop.configure(logistic, reset_model=True)
    assert loop.published.bandit.policy.link == "logistic"
