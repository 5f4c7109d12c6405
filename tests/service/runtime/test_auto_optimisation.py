"""When looks happen, and what becomes of their outcomes. What they compute is not tested here."""

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from glbandits.features import Hashing
from glbandits.service.domain.decision_learning import LearningOutcome
from glbandits.service.domain.loop_config import DAY, LoopConfig
from glbandits.service.domain.model_snapshots import fresh_model
from glbandits.service.domain.optimisation_rules import OPTIMISATION, Look, LookVerdict
from glbandits.service.domain.request_features import RequestHashing
from glbandits.service.runtime.auto_optimisation import AutoOptimisation, OptimiseLog
from glbandits.service.runtime.replay.relearning import relearn
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run
from tests.service.runtime import fake_optimisers
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds

SETTINGS = LoopConfig(width=32, reward_wait=10.0, reward_range=(0.0, 1.0), auto_optimisation=True)


class World:
    def __init__(self, folder: Path) -> None:
        self.clock, self.is_learner = Clock(), True
        self.address = str(folder / "store.db")
        self.service = Service(SqliteStore(self.address), clock=self.clock, learns=lambda: self.is_learner)
        self.loop = self.service.loop("default")
        self.loop.configure(SETTINGS)

    def optimisation(self, optimise: OptimiseLog | None) -> AutoOptimisation:
        return AutoOptimisation(self.service, optimise, self.address)

    def looks(self) -> list[Look]:
        documents = self.service.store.documents("default", OPTIMISATION)
        return [msgspec.json.decode(document.body, type=Look) for document in documents]


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    run(world.service.close())


def test_a_look_is_saved_and_repeated_when_it_is_due(world: World, caplog: pytest.LogCaptureFixture) -> None:
    optimisation = world.optimisation(fake_optimisers.wait)
    with caplog.at_level(logging.INFO):
        optimisation.run_due()
        optimisation.run_due()
    assert world.looks() == [Look(verdict=LookVerdict.WAIT, sentence="Wait for default.")]
    assert caplog.messages == ["Loop default: auto-optimisation: Wait for default."]
    assert world.loop.configuration == SETTINGS
    world.clock.wait(7 * DAY)
    optimisation.run_due()
    assert len(world.looks()) == 2


def test_only_the_learner_runs_looks_if_enabled(world: World) -> None:
    optimisation = world.optimisation(fake_optimisers.fail)
    world.is_learner = False
    optimisation.run_due()
    world.is_learner = True
    world.loop.configure(msgspec.structs.replace(SETTINGS, auto_optimisation=False))
    optimisation.run_due()
    assert world.looks() == []


def test_a_promoted_model_learns_newer_decisions(world: World) -> None:
    store = world.service.store
    play_rounds(world.loop, store, world.clock, 20)
    thread = threading.Thread(target=world.optimisation(fake_optimisers.promote).run_due)
    before = world.loop.published
    thread.start()
    time.sleep(0.5)
    play_rounds(world.loop, store, world.clock, 20, first=20)
    thread.join(60)
    chosen = msgspec.structs.replace(SETTINGS, policy="lin-ucb", settings={})
    assert world.loop.configuration == chosen
    assert world.looks()[-1].verdict is LookVerdict.PROMOTE
    model, expected = world.loop.published, fresh_model(chosen)
    hashing = RequestHashing(Hashing(width=32))
    ((expected, outcomes),) = relearn(
        store, "default", expected, hashing, before.learned_through, model.learned_through
    )
    assert outcomes == [LearningOutcome.LEARNED] * 20
    assert np.array_equal(model.bandit.state, expected.state)
    assert model.epoch == before.epoch + 1
    assert verify(store, "default").different == 0


def test_a_failure_is_saved_logged_and_not_repeated_at_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    optimisation = world.optimisation(fake_optimisers.fail)
    optimisation.run_due()
    optimisation.run_due()
    assert world.looks() == [
        Look(verdict=LookVerdict.FAILED, sentence="The look failed: The server's log has the error.")
    ]
    assert "ValueError: no result for default" in caplog.text
    assert world.loop.configuration == SETTINGS


def test_missing_estimators_are_named(world: World) -> None:
    world.optimisation(None).run_due()
    assert "pip install 'glbandits[lab]'" in world.looks()[0].sentence


def test_close_cancels_a_running_look(world: World) -> None:
    optimisation = world.optimisation(fake_optimisers.sleep)
    thread = threading.Thread(target=optimisation.run_due)
    thread.start()
    time.sleep(1.0)
    optimisation.close()
    thread.join(20)
    assert not thread.is_alive()
    assert world.looks() == []


def test_a_changed_loop_is_not_promoted(world: World) -> None:
    bandit, changed = world.loop.published.bandit, msgspec.structs.replace(SETTINGS, exploration=0.1)
    assert not world.loop.promote(changed, lambda _: bandit, {OPTIMISATION: b""}, before=changed)
    assert world.looks() == []
    assert world.loop.configuration == SETTINGS
