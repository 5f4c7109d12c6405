"""Models that cannot be loaded: a loop never publishes one, and one in the store is not fatal."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from glbandits.bandit import Bandit
from glbandits.service.domain.decision_learning import LearningOutcome, learn_batch
from glbandits.service.domain.events import Reward
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import decode_snapshot, load_snapshot
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import INVALIDATING
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from tests.service.runtime.loops.damaged_models import (
    DAMAGES,
    damage_all_models,
    damage_base,
    damage_model,
    invalid,
    truncated,
)
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, loop_in, play_rounds, small_loop

POISON, TRAP, SICK, CURE = 0.625, 0.375, 0.125, 0.875
"""Rewards that make the model invalid for ever, that make the policy fail after it has changed the state, that make the
model invalid, and that make it valid again."""


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make models fail by these rewards, as a policy with a defect would."""
    learn = Bandit.learn

    def fails(bandit: Bandit, x: Any, reward: float, **more: Any) -> None:
        learn(bandit, x, reward, **more)
        if reward == POISON:
            bandit._state[-1] = np.nan
        if reward in (SICK, CURE):  # the last number is a variance
            bandit._state[-1] = abs(bandit._state[-1]) * (1.0 if reward == CURE else -1.0)
        if reward == TRAP:
            bandit._state[0] += 1.0
            raise ZeroDivisionError

    monkeypatch.setattr(Bandit, "learn", fails)


def decide_and_reward(loop: Loop, store: EventStore, clock: Clock, values: Sequence[float], first: int = 1000) -> None:
    """Log a decision for each reward. The ids are event-1000, event-1001 and so on."""
    for number, value in enumerate(values, first):
        decision = ask(loop, f"event-{number}", CONTEXTS[number % 3])
        reward = Reward(loop=loop.name, event_id=decision.event_id, timestamp=clock(), value=value)
        store.append_blocking([decision, reward])
    clock.wait(11)


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("bad", [POISON, TRAP])
def test_only_decisions_that_invalidate_the_model_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bad: float
) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 20)
    before = loop.published
    decide_and_reward(loop, store, clock, [1.0, bad, 0.0, 0.0, bad, 1.0, bad])
    assert loop.learn() == 7
    assert (loop.published.set_aside, loop.published.invalidating) == (3, 3)
    assert loop.published.learned_through == store.last_sequence("default")
    batch = store.settled("default", before.learned_through, clock(), 100)
    good = [settled for settled in batch if settled.decision.event_id[-1] not in "146"]
    expected, outcomes = learn_batch(before.bandit, good, before.encoder)
    assert outcomes == [LearningOutcome.LEARNED] * 4
    np.testing.assert_array_equal(loop.published.bandit.state, expected.state)
    assert "3 decisions are set aside, because learning them would have made the model invalid" in caplog.text
    assert "events 'event-1001', 'event-1004', 'event-1006'" in caplog.text
    assert Bandit.from_bytes(loop.export_model()).is_valid()
    assert "3 decisions were set aside" in loop.warnings()[0]


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("cut", [1, 2, 3, 7, 40])
def test_lasting_defects_are_found_in_any_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    rewards = np.random.default_rng(3).choice([0.0, 1.0, POISON, TRAP], size=40, p=[0.4, 0.4, 0.1, 0.1])
    loop, store = small_loop(tmp_path, clock := Clock())
    decide_and_reward(loop, store, clock, rewards.tolist())
    monkeypatch.setattr("glbandits.service.runtime.loops.learning_loop.LEARNED_AT_ONCE", cut)
    loop.learn()
    bad = int(np.isin(rewards, [POISON, TRAP]).sum())
    assert loop.published.invalidating == bad
    monkeypatch.setattr("glbandits.service.runtime.replay.relearning.BATCH", 11)
    decide_and_reward(loop, store, clock, [1.0] * 3, first=2000)
    loop.learn()
    result = verify(store, "default")
    assert (result.sound, result.decisions, result.set_aside) == (True, 43, bad)
    before = loop.published
    loop.relearn_whole_log(reset_model=False, progress=lambda _: None)
    np.testing.assert_array_equal(loop.published.bandit.state, before.bandit.state)
    assert loop.published.invalidating == bad


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("cut", [1, 3, 7, 40])
def test_replay_sets_aside_the_same_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    """Although the model becomes valid again, so that other batches would set aside other decisions."""
    rewards = np.random.default_rng(4).choice([0.0, 1.0, SICK, CURE], size=40, p=[0.3, 0.3, 0.2, 0.2])
    loop, store = small_loop(tmp_path, clock := Clock())
    decide_and_reward(loop, store, clock, rewards.tolist())
    monkeypatch.setattr("glbandits.service.runtime.loops.learning_loop.LEARNED_AT_ONCE", cut)
    loop.learn()
    decide_and_reward(loop, store, clock, [1.0] * 3, first=2000)
    loop.learn()
    result = verify(store, "default")
    assert (result.sound, result.decisions, result.set_aside) == (True, 43, loop.published.invalidating)
    assert (loop.published.invalidating == (rewards == SICK).sum()) == (cut == 1)
    damage_all_models(store)
    monkeypatch.setattr("glbandits.service.runtime.loops.learning_loop.LEARNED_AT_ONCE", 1000)
    again = Loop("default", store, clock)
    again.learn()
    assert again.published.invalidating == loop.published.invalidating
    assert verify(store, "default").sound


@pytest.mark.usefixtures("fragile")
def test_a_failed_publication_sets_aside_the_same_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    decide_and_reward(loop, store, clock, [1.0, SICK])

    def out_of_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("glbandits.service.domain.model_snapshots.PublishedModel.after", out_of_memory)
        with pytest.raises(MemoryError):
            loop.learn()
    decide_and_reward(loop, store, clock, [CURE], first=2000)
    for one in (loop, Loop("default", store, clock)):
        one.learn()
        assert (one.published.invalidating, verify(store, "default").sound) == (1, True)
    store.save_document("default", INVALIDATING, clock(), b"garbage")
    assert Loop("default", store, clock).published.invalidating == 1
    loop.delete_log(clock())
    assert len(store.documents("default", INVALIDATING)) == 1


@pytest.mark.usefixtures("fragile")
def test_a_batch_of_invalidating_decisions_changes_nothing(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 20)
    before = loop.published.bandit.state
    decide_and_reward(loop, store, clock, [POISON] * 9)
    assert loop.learn() == 9
    assert loop.published.invalidating == 9
    np.testing.assert_array_equal(loop.published.bandit.state, before)


@pytest.fixture(name="store")
def store_fixture(new_address: Callable[[], str]) -> Iterator[EventStore]:
    with closing(open_store(new_address(), durability="process")) as store:
        yield store


@pytest.mark.system
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_loop_starts_from_the_last_valid_model(
    store: EventStore, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    loop = loop_in(store, clock := Clock())
    play_rounds(loop, store, clock, 60)
    number = damage_model(store, damage)
    older = store.model_at_most("default", number - 1)
    assert older is not None
    again = Loop("default", store, clock)
    assert (again.published.epoch, again.published.learned_through) == (loop.published.epoch, older.sequence)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert f"Loop default: saved model {number} cannot be loaded" in record.getMessage()
    assert f"has learned the decisions up to {older.sequence}" in record.getMessage()
    assert record.exc_info is None
    assert f"up to decision {older.sequence} of {number}" in again.warnings()[0]
    store.append_blocking([ask(again, "while-catching-up", CONTEXTS[0])])
    again.learn()
    np.testing.assert_array_equal(again.published.bandit.state, loop.published.bandit.state)
    assert again.warnings() == []
    clock.wait(11)
    again.learn()
    assert verify(store, "default").sound
    saved = store.latest_model("default")
    assert saved is not None
    assert load_snapshot(saved.body)[1].is_valid()


def test_a_loop_starts_from_the_base_if_all_models_are_damaged(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 60)
    damage_all_models(store)
    again = Loop("default", store, clock)
    assert (again.published.epoch, again.published.learned_through) == (loop.published.epoch, 0)
    again.learn()
    np.testing.assert_array_equal(again.published.bandit.state, loop.published.bandit.state)
    assert verify(store, "default").sound


@pytest.mark.system
def test_a_fresh_model_learns_the_log_if_nothing_can_be_loaded(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    loop = loop_in(store, clock := Clock())
    play_rounds(loop, store, clock, 60)
    damage_all_models(store)
    damage_base(store, lambda _: b"garbage")
    again, third = Loop("default", store, clock), Loop("default", store, clock)
    assert again.published.epoch == third.published.epoch == loop.published.epoch + 1
    assert again.published.bandit.policy == loop.published.bandit.policy
    assert sum(record.levelno >= logging.WARNING for record in caplog.records) == 2  # one for each start
    again.learn()
    np.testing.assert_array_equal(again.published.bandit.state, loop.published.bandit.state)
    third.refresh()
    assert third.published.learned_through == again.published.learned_through
    assert third.warnings() == []
    loop.refresh()
    assert loop.published.epoch == again.published.epoch
    play_rounds(again, store, clock, 20, first=60)
    result = verify(store, "default")
    assert (result.sound, result.decisions, result.unchecked) == (True, 20, 60)


def test_a_damaged_base_alone_is_not_noticed_by_the_loop(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 40)
    damage_base(store, truncated)
    again = Loop("default", store, clock)
    assert again.published.learned_through == loop.published.learned_through
    assert again.warnings() == []
    again.configure(LoopConfig(width=8, reward_wait=10.0), reset_model=True)
    assert again.published.epoch == loop.published.epoch + 1
    loop.refresh()
    assert loop.published.bandit.dim == 8


def test_another_process_keeps_its_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    learner, store = small_loop(tmp_path, clock := Clock())
    play_rounds(learner, store, clock, 20)
    other = Loop("default", store, clock)
    before = other.published
    for first in (20, 40):
        play_rounds(learner, store, clock, 20, first=first)
        damage_model(store, truncated)
        for _ in range(3):
            other.refresh()
    assert other.published.learned_through == before.learned_through
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
    assert "cannot be loaded" in other.warnings()[0]
    play_rounds(learner, store, clock, 20, first=60)
    other.refresh()
    assert other.published.learned_through == learner.published.learned_through
    assert other.warnings() == []


def test_replay_verifies_decisions_although_the_model_is_damaged(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 40)
    number = damage_model(store, invalid)
    result = verify(store, "default")
    assert (result.decisions, result.different) == (40, 1)
    assert f"the saved model {number} cannot be loaded" in result.messages[0]


def test_a_loop_without_decisions_starts_with_a_damaged_base(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), exploration=0.5)
    damage_base(store, truncated)
    again = Loop("default", store, clock)
    assert again.configuration == loop.configuration
    assert again.published.bandit.dim == 16
    assert again.warnings() == []


def test_snapshot_of_any_bytes_is_refused_by_one_error() -> None:
    with pytest.raises(ValueError, match="the snapshot is damaged"):
        decode_snapshot(msgspec.msgpack.encode({"epoch": "one"}))
