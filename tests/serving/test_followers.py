"""Several processes over one store: one learns, the others follow. Here as several loops in one process."""

from pathlib import Path

import numpy as np
import pytest

from glbandits.serving.configuration import Configuration
from glbandits.serving.learner_lock import LearnerLock
from glbandits.serving.loop import Loop
from glbandits.serving.sqlite_store import SqliteStore
from glbandits.serving.verify import verify
from tests.serving.worlds import Clock, live, small_loop


class Pair:
    """A loop that learns and one that follows, each with its own connection to the same file."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.learner, self.store = small_loop(folder, self.clock)
        self.follower = Loop("default", SqliteStore(folder / "events.sqlite"), self.clock)

    def live(self, rounds: int, first: int) -> None:
        """Decisions of the one that learns."""
        live(self.learner, self.store, self.clock, rounds, first=first)

    def alike(self) -> bool:
        """Whether both decide with the same model."""
        one, other = self.learner.published, self.follower.published
        return one[:2] == other[:2] and np.array_equal(one.bandit.state, other.bandit.state)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_follower_has_the_model_that_was_learned(pair: Pair) -> None:
    pair.live(40, 0)
    assert not pair.alike()
    pair.follower.refresh()
    assert pair.alike()
    assert pair.follower.published.number > 0


def test_a_follower_that_has_the_newest_model_keeps_it(pair: Pair) -> None:
    pair.live(40, 0)
    pair.follower.refresh()
    before = pair.follower.published
    pair.follower.refresh()
    assert pair.follower.published is before


def test_a_follower_can_take_over(pair: Pair) -> None:
    pair.live(40, 0)
    pair.follower.refresh()
    live(pair.follower, pair.store, pair.clock, 40, first=40)
    assert pair.follower.published.number > pair.learner.published.number
    pair.learner.refresh()
    assert pair.alike()
    assert verify(pair.store, "default").sound


def test_the_learner_goes_on_with_the_configuration_that_a_follower_was_told(pair: Pair) -> None:
    pair.live(40, 0)
    pair.follower.refresh()
    pair.follower.configure(Configuration(width=16, reward_wait=10.0, exploration=0.5))
    pair.learner.learn()
    assert pair.learner.configuration == pair.follower.configuration
    assert pair.alike()
    assert pair.learner.published.bandit.dim == 16
    pair.live(40, 40)
    pair.follower.refresh()
    assert pair.alike()
    assert verify(pair.store, "default").sound


def test_the_learner_forgets_what_a_follower_was_told_to_forget(pair: Pair) -> None:
    """The follower lags behind when it is told, and the new model still comes after all that was learned."""
    pair.live(60, 0)
    pair.follower.reset()
    assert pair.follower.published.number == pair.learner.published.number
    pair.learner.learn()
    assert pair.alike()
    pair.live(40, 60)
    pair.follower.refresh()
    assert pair.alike()
    assert verify(pair.store, "default").sound


def test_one_holds_the_lock_until_it_lets_go(tmp_path: Path) -> None:
    one, other = (LearnerLock(tmp_path / "store.db") for _ in range(2))
    assert one.held()
    assert one.held()
    assert not other.held()
    one.close()
    assert other.held()
    other.close()
