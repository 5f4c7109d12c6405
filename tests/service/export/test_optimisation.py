"""Looks of the auto-optimisation at logs of known worlds."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from glbandits import Bandit
from glbandits.features import Hashing
from glbandits.service.domain.model_snapshots import fresh_model
from glbandits.service.domain.optimisation_rules import OPTIMISATION, LookVerdict, OptimisationResult
from glbandits.service.domain.request_features import RequestHashing
from glbandits.service.export.optimisation import optimise_log
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.relearning import relearned
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.export.written_loop import ARMS, play, uniform_loop
from tests.service.runtime.loops.loop_helpers import Clock

ON: dict[str, Any] = {"auto_optimisation": True, "reward_range": (0.0, 1.0), "candidates": ("optimist",)}


class World:
    def __init__(self, store: SqliteStore, **settings: Any) -> None:
        self.store, self.clock = store, Clock()
        self.loop: Loop = uniform_loop(store, self.clock, **ON | settings)

    def play(self, rounds: int, gain: float = 0.4) -> None:
        play(self.loop, self.store, self.clock, rounds, gain)

    def look(self) -> OptimisationResult:
        """Look, and save the outcome without promoting anybody."""
        optimised = optimise_log(self.store, "default", learned_through=self.loop.published.learned_through)
        body = {OPTIMISATION: msgspec.json.encode(optimised.look)}
        self.store.save_documents("default", self.clock(), body, expected_versions={})
        return optimised

    def gate(self) -> tuple[int, int, int]:
        gate = self.look().look.gate
        assert gate is not None
        return gate.index, gate.since, gate.first

    def configure(self, **changed: Any) -> None:
        self.loop.configure(msgspec.structs.replace(self.loop.configuration, **changed))


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        yield store


@pytest.mark.statistics
def test_better_policy_is_promoted_with_a_trained_model(store: SqliteStore) -> None:
    world = World(store)
    world.play(3000)
    optimised = world.look()
    look = optimised.look
    assert (look.verdict, look.decisions) == (LookVerdict.PROMOTE, 3000)
    assert look.sentence.startswith("Promoted optimist: it is better than uniform by 0.")
    # Of the better arm, 0.8 + 0.2 / 4 with exploration against 1 / 4: 0.4 (0.85 - 0.25) = 0.24.
    assert 0.0 < look.gains["optimist"].low < 0.24 < look.gains["optimist"].high
    assert optimised.configuration is not None
    assert optimised.configuration.policy == "optimist"
    model = Bandit.from_bytes(optimised.model)
    assert np.argmax(model.probabilities(ARMS)) == 0
    expected = fresh_model(optimised.configuration)
    expected = relearned(store, "default", expected, RequestHashing(Hashing(width=4)), 0, 2**62)
    assert np.array_equal(model.state, expected.state)


def test_nothing_is_promoted_without_a_difference(store: SqliteStore) -> None:
    # False alarms: at most 2.5 %, by the share of the first gate; the seed is fixed.
    world = World(store)
    world.play(3000, gain=0.0)
    optimised = world.look()
    assert (optimised.look.verdict, optimised.configuration, optimised.model) == (LookVerdict.WAIT, None, b"")


def test_short_log_waits_and_uses_no_alpha(store: SqliteStore) -> None:
    world = World(store)
    for rounds in (0, 500):
        world.play(rounds)
        look = world.look().look
        assert (look.verdict, look.gains, look.decisions) == (LookVerdict.WAIT, {}, rounds)
    assert look.sentence == "Wait: 500 of the 1,024 decisions that the gate needs are settled."
    world.play(600)
    assert world.gate()[0] == 0


def test_looks_at_the_same_comparison_share_a_gate(store: SqliteStore) -> None:
    world = World(store)
    world.play(1100)
    first = world.gate()
    world.play(500)
    world.configure(optimisation_frequency=86_400.0, retention_days=30)
    assert world.gate() == first
    assert first[0] == 0


@pytest.mark.parametrize(
    "changed",
    [{"candidates": ("sgd-ts",)}, {"exploration": 0.1}, {"policy": "optimist"}],
)
def test_change_starts_a_gate_with_later_decisions_only(store: SqliteStore, changed: dict[str, Any]) -> None:
    world = World(store, candidates=("sgd-ts", "optimist:floor=0.1"))
    world.play(1100)
    world.look()
    last, configured_at = store.last_sequence("default"), world.clock.now
    world.configure(**changed)
    index, since, first = world.gate()
    assert (index, first) == (1, 0)
    assert since > configured_at
    world.play(10)
    look = world.look().look
    assert look.decisions == 10
    assert look.gate is not None
    assert look.gate.first > last


def test_first_gate_counts_decisions_from_before_it_was_enabled(store: SqliteStore) -> None:
    world = World(store, auto_optimisation=False, candidates=())
    world.play(1100)
    world.configure(auto_optimisation=True)
    assert world.look().look.decisions == 1100


def test_named_candidates_count_decisions_after_they_were_named(store: SqliteStore) -> None:
    world = World(store, auto_optimisation=False, candidates=())
    world.play(1100)
    world.configure(auto_optimisation=True, candidates=("optimist",))
    assert world.look().look.decisions == 0


def test_deleting_old_decisions_starts_a_new_gate(store: SqliteStore) -> None:
    world = World(store)
    world.play(1100)
    world.look()
    middle = world.clock.now
    world.play(1100)
    world.loop.delete_log(middle)
    look = world.look().look
    assert look.decisions == 1100
    assert look.gate is not None
    assert (look.gate.index, look.gate.first > 1100) == (1, True)


def test_rewards_beyond_the_limits_are_clipped(store: SqliteStore) -> None:
    world = World(store)
    world.play(1100)
    world.configure(reward_range=(0.0, 0.5))
    assert world.look().look.verdict in (LookVerdict.PROMOTE, LookVerdict.WAIT)


def test_running_policy_is_not_its_own_candidate(store: SqliteStore) -> None:
    world = World(store, candidates=("uniform",))
    look = world.look().look
    assert (look.verdict, look.sentence) == (LookVerdict.KEEP, "Keep the running policy: it is the only candidate.")
