"""The evidence of a loop is kept with its model: through restarts, takeovers, resets and deletions, in both stores."""

from collections.abc import Callable, Iterator

import pytest

from glbandits.service.domain.verdict import LoopVerdict, judge_past, judge_present, judge_uniform
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.open_store import open_store
from tests.service.runtime.loops.loop_helpers import Clock, loop_in, play_rounds


class World:
    """A store, a clock, and loops that share both."""

    def __init__(self, store: EventStore) -> None:
        self.store, self.clock, self.decisions = store, Clock(), 0
        self.loop = loop_in(store, self.clock, reward_range=(0.0, 1.0))

    def play_rounds(self, rounds: int, loop: Loop | None = None) -> None:
        """Decide and learn. The visitors do not depend on who decides."""
        play_rounds(loop or self.loop, self.store, self.clock, rounds, seed=self.decisions, first=self.decisions)
        self.decisions += rounds

    def another(self) -> Loop:
        """The same loop in another process, or after a start."""
        return Loop("default", self.store, self.clock)


@pytest.fixture(name="new_world")
def new_world_fixture(new_address: Callable[[], str]) -> Iterator[Callable[[], World]]:
    stores: list[EventStore] = []

    def new_world() -> World:
        stores.append(open_store(new_address(), durability="process"))
        return World(stores[-1])

    yield new_world
    for store in stores:
        store.close()


def test_a_better_model_gets_the_verdict_better(new_world: Callable[[], World]) -> None:
    world = new_world()
    world.play_rounds(400)
    for judge in (judge_past, judge_uniform):
        judged = judge(world.loop.published.evidence)
        assert (judged.verdict, judged.decisions) == (LoopVerdict.BETTER, 400)


def test_restart_and_takeover_keep_the_evidence(new_world: Callable[[], World]) -> None:
    """One loop learns all; in the other world another process takes over, which is then started again."""
    undisturbed, world = new_world(), new_world()
    for _ in range(3):
        undisturbed.play_rounds(40)
    world.play_rounds(40)
    world.play_rounds(40, world.another())
    world.play_rounds(40, world.another())
    world.loop.refresh()
    for loop in (world.loop, world.another()):
        assert loop.published.evidence == undisturbed.loop.published.evidence
    assert loop.published.evidence.past.decisions == 120
    assert verify(world.store, "default").sound


def test_retention_does_not_change_the_verdict(new_world: Callable[[], World]) -> None:
    world = new_world()
    world.play_rounds(100)
    before = world.loop.published.evidence
    assert world.loop.delete_log(world.clock.now - 30_000_000) > 0
    assert world.loop.published.evidence == world.another().published.evidence == before
    world.play_rounds(100)
    assert world.loop.published.evidence.past.decisions == 200


def test_a_model_reset_resets_the_present(new_world: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.service.domain.evidence.FIRST_SPLIT", 40)
    world = new_world()
    world.play_rounds(100)
    assert judge_present(world.loop.published.evidence).decisions == 60
    world.loop.configure(world.loop.configuration, reset_model=True)
    world.play_rounds(20)
    evidence = world.another().published.evidence
    assert judge_present(evidence).decisions == 0
    assert judge_past(evidence).decisions == 120
