"""Several processes over one store: one learns, the others follow. Here as several loops in one process."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.events import DecisionRequest
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import BASE, CONFIGURATION
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.document_store import Document, SavedModel
from glbandits.service.storage.loop_store import IDENTITY
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop


def decide_once(loop: Loop) -> None:
    """Decide among two actions of the width that the loop's model has."""
    arms = np.zeros((2, loop.published.bandit.dim)).tobytes()
    loop.decide(DecisionRequest(event_id="", request=arms, encoding="dense", actions=("a", "b")))


class Pair:
    """A loop that learns and one that follows, each with its own connection to the same file."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.learner, self.store = small_loop(folder, self.clock)
        self.other_store = SqliteStore(folder / "events.sqlite")
        self.follower = Loop("default", self.other_store, self.clock)

    def play_rounds(self, rounds: int, first: int) -> None:
        """Decisions of the one that learns."""
        play_rounds(self.learner, self.store, self.clock, rounds, first=first)

    def alike(self) -> bool:
        """Whether both decide with the same model."""
        one, other = self.learner.published, self.follower.published
        return one[:2] == other[:2] and np.array_equal(one.bandit.state, other.bandit.state)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_follower_has_the_model_that_was_learned(pair: Pair) -> None:
    pair.play_rounds(40, 0)
    assert not pair.alike()
    pair.follower.refresh()
    assert pair.alike()
    assert pair.follower.published.learned_through > 0


def test_a_follower_that_has_the_newest_model_keeps_it(pair: Pair) -> None:
    pair.play_rounds(40, 0)
    pair.follower.refresh()
    before = pair.follower.published
    pair.follower.refresh()
    assert pair.follower.published is before


def test_a_follower_can_take_over(pair: Pair) -> None:
    pair.play_rounds(40, 0)
    pair.follower.refresh()
    play_rounds(pair.follower, pair.store, pair.clock, 40, first=40)
    assert pair.follower.published.learned_through > pair.learner.published.learned_through
    pair.learner.refresh()
    assert pair.alike()
    assert verify(pair.store, "default").sound


def test_the_learner_adopts_a_follower_s_configuration(pair: Pair) -> None:
    pair.play_rounds(40, 0)
    pair.follower.refresh()
    pair.follower.configure(LoopConfig(width=16, reward_wait=10.0, exploration=0.5))
    pair.learner.learn()
    assert pair.learner.configuration == pair.follower.configuration
    assert pair.alike()
    assert pair.learner.published.bandit.dim == 16
    pair.play_rounds(40, 40)
    pair.follower.refresh()
    assert pair.alike()
    assert verify(pair.store, "default").sound


def test_the_learner_adopts_a_reset_by_a_follower(pair: Pair) -> None:
    """The follower is 60 decisions behind at the reset; the new model still starts after all of them."""
    pair.play_rounds(60, 0)
    pair.follower.configure(pair.follower.configuration, reset_model=True)
    assert pair.follower.published.learned_through == pair.learner.published.learned_through
    pair.learner.learn()
    assert pair.alike()
    pair.play_rounds(40, 60)
    pair.follower.refresh()
    assert pair.alike()
    assert verify(pair.store, "default").sound


def meanwhile(pair: Pair, monkeypatch: pytest.MonkeyPatch, other: Callable[[], None]) -> None:
    """Let something happen after the follower has read the store, before it writes a configuration or a model."""
    save, done = pair.other_store.save_documents, list[bool]()

    def saved(*args: Any, **kwargs: Any) -> bool:
        if not done:
            done.append(True)
            other()
        return save(*args, **kwargs)

    monkeypatch.setattr(pair.other_store, "save_documents", saved)


def test_concurrent_configurations_start_two_epochs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.play_rounds(40, 0)
    wide, narrow = (LoopConfig(width=width, reward_wait=10.0) for width in (64, 16))
    meanwhile(pair, monkeypatch, lambda: pair.learner.configure(wide, reset_model=True))
    pair.follower.configure(narrow, reset_model=True)
    pair.learner.refresh()
    assert pair.alike()
    assert (pair.learner.configuration, pair.learner.published.bandit.dim) == (narrow, 16)
    assert pair.learner.published.epoch == 3  # the fixture's is the first
    pair.play_rounds(40, 40)
    assert verify(pair.store, "default").sound
    decide_once(Loop("default", pair.store, pair.clock))


def test_a_reset_uses_the_newest_width(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(pair, monkeypatch, lambda: pair.learner.configure(LoopConfig(width=16, reward_wait=10.0)))
    pair.follower.configure(pair.follower.configuration, reset_model=True)
    assert pair.follower.published.bandit.dim == 16


def test_concurrent_changes_are_both_applied(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(pair, monkeypatch, lambda: pair.learner.configure(replace(pair.learner.configuration, exploration=0.5)))
    changed = pair.follower.reconfigure(lambda current: replace(current, default_reward=-1.0))
    assert (changed.exploration, changed.default_reward) == (0.5, -1.0)
    pair.learner.refresh()
    assert pair.learner.configuration == pair.follower.configuration == changed


def test_configuration_and_model_are_saved_together(tmp_path: Path, pair: Pair) -> None:
    """The disk is full when the model is written."""
    before = pair.learner.configuration
    with closing(sqlite3.connect(tmp_path / "events.sqlite")) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON documents WHEN NEW.kind = 'base'"
            " BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
    with pytest.raises(StoreError, match="the disk is full"):
        pair.learner.configure(LoopConfig(width=8, reward_wait=10.0))
    again = Loop("default", SqliteStore(tmp_path / "events.sqlite"), pair.clock)
    assert again.configuration == pair.learner.configuration == before
    assert again.published.bandit.dim == pair.learner.published.bandit.dim == before.width


def test_a_model_of_another_width_is_replaced(pair: Pair) -> None:
    """As a store may be that was written by hand."""
    other = LoopConfig(width=16, reward_wait=10.0)
    pair.store.save_document("default", CONFIGURATION, 0, msgspec.json.encode(other))
    decide_once(Loop("default", pair.store, pair.clock))
    pair.learner.configure(other)
    assert pair.learner.published.bandit.dim == 16


def test_concurrent_starts_share_salt_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (SqliteStore(tmp_path / "events.sqlite") for _ in range(2))
    find, late = one.latest_document, list[Loop]()

    def found(loop: str, kind: str) -> Document | None:
        first = find(loop, kind)
        if not late:
            late.append(Loop(loop, other, Clock()))
        return first

    monkeypatch.setattr(one, "latest_document", found)
    loop = Loop("default", one, Clock())
    assert loop.salt == late[0].salt
    assert [len(one.documents("default", kind)) for kind in (IDENTITY, CONFIGURATION, BASE)] == [1, 1, 1]


def test_models_are_read_only_if_they_are_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    follower = Loop("default", store, clock)
    play_rounds(loop, store, clock, 20)
    read, latest, document = list[str](), store.latest_model, store.latest_document

    def model_of(name: str) -> SavedModel | None:
        read.append("model")
        return latest(name)

    def document_of(name: str, kind: str) -> Document | None:
        read.append(kind)
        return document(name, kind)

    monkeypatch.setattr(store, "latest_model", model_of)
    monkeypatch.setattr(store, "latest_document", document_of)
    follower.refresh()
    assert follower.published.learned_through == loop.published.learned_through > 0
    assert "model" in read
    read.clear()
    follower.refresh()
    assert {"model", BASE}.isdisjoint(read)
    loop.import_model(loop.export_model())
    follower.refresh()
    assert BASE in read
    assert follower.published.epoch == loop.published.epoch
