import sys
import threading
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.compilation.entry_point import entry_point
from glbandits.policies.contract import settings_of
from glbandits.service.domain.action_selection import decide, draw, draw_recipe, seed_of, uniform_of
from glbandits.service.domain.decision_learning import LearningOutcome, _learn
from glbandits.service.domain.events import (
    Activation,
    Aggregation,
    DecisionRequest,
    EventStatus,
    Mode,
    Reward,
    SettledDecision,
)
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.request_features import RequestEncoder
from glbandits.service.domain.reward_aggregation import aggregate
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_documents import BASE
from glbandits.service.runtime.replay.relearning import model_that_decided
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import ACTIONS, Clock, ask, play_rounds, small_loop


def test_a_loop_learns_the_best_action_per_context(tmp_path: Path) -> None:
    """At random a third is right. Over 30 seeds 92 % of the last 200 were, 89 % at least; of the first 20 a third."""
    loop, store = small_loop(tmp_path, clock := Clock(), exploration=0.1)
    made = play_rounds(loop, store, clock, 400)
    rng = np.random.default_rng(0)
    right = [decision.shown == int(rng.integers(3)) for decision in made]
    assert np.mean(right[200:]) > 0.8


def test_draws_depend_on_the_event_and_the_loop(tmp_path: Path) -> None:
    loop, _ = small_loop(tmp_path, Clock())
    assert ask(loop, "one", "noon").chosen == ask(loop, "one", "noon").chosen
    assert seed_of("salt", "event", "") != seed_of("other", "event", "")
    assert seed_of("salt", "a", "b") != seed_of("salt", "ab", "")


def test_every_decision_can_be_repeated(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 150)
    loop.configure(LoopConfig(width=16, reward_wait=10.0, aggregation=Aggregation.SUM))
    play_rounds(loop, store, clock, 60, first=1000)
    loop.configure(loop.configuration, reset_model=True)
    play_rounds(loop, store, clock, 60, first=2000)
    loop.close()
    result = verify(store, "default")
    assert result.sound
    assert result.decisions == 270
    assert result.models > 10
    assert result.learned >= 200


def test_a_changed_log_is_detected(tmp_path: Path) -> None:
    """A reward that comes to the log behind the learner's back gives other models, and so other probabilities."""
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 100)
    first = store.decision("default", "event-3")
    assert first is not None
    other = msgspec.structs.replace(first.decision, event_id="forged", chosen=(first.decision.chosen + 1) % 3)
    store.append_blocking([other])
    result = verify(store, "default")
    assert not result.sound
    assert "forged" in result.messages[0]


def test_a_kill_during_creation_leaves_a_valid_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "events.sqlite")
    with monkeypatch.context() as patched:
        patched.setattr("glbandits.service.runtime.loops.loop_documents.fresh_model", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            Loop("default", store, Clock())
    result = verify(store, "default")
    assert (result.sound, result.decisions) == (True, 0)
    assert Loop("default", store, Clock()).published.epoch == 0


def test_a_loop_continues_after_a_restart(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 100)
    loop.close()
    again = Loop("default", store, clock)
    np.testing.assert_array_equal(again.published.bandit.state, loop.published.bandit.state)
    assert again.published.learned_through == loop.published.learned_through
    assert again.configuration == loop.configuration
    assert again.salt == loop.salt


def test_a_killed_loop_learns_unsaved_decisions_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 40)
    monkeypatch.setattr(store, "save_model", lambda *_, **__: None)
    play_rounds(loop, store, clock, 60, first=40)
    again = Loop("default", store, clock)  # without close
    assert again.published.learned_through < loop.published.learned_through
    again.learn()
    np.testing.assert_array_equal(again.published.bandit.state, loop.published.bandit.state)


@pytest.mark.parametrize("failing", ["learn", "statistics"])
def test_a_failed_batch_is_not_learned_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 10)
    clock.wait(11)

    def out_of_memory(*_: object) -> None:
        raise MemoryError

    def broken(learner: Bandit, settled: SettledDecision, encoder: RequestEncoder) -> LearningOutcome:
        if settled.decision.event_id == "event-7":
            raise MemoryError
        return _learn(learner, settled, encoder)

    with monkeypatch.context() as patched:
        if failing == "learn":
            patched.setattr("glbandits.service.domain.decision_learning._learn", broken)
        else:
            patched.setattr(loop.statistics, "add", out_of_memory)
        with pytest.raises(MemoryError):
            loop.learn()
    loop.learn()
    play_rounds(loop, store, clock, 10, first=10)
    assert loop.published.learned_through > 0
    assert verify(store, "default").sound


def test_a_late_reward_is_not_learned(tmp_path: Path) -> None:
    states = []
    for came in (0, 1):
        (tmp_path / f"{came}").mkdir()
        loop, store = small_loop(tmp_path / f"{came}", clock := Clock())
        store.append_blocking([ask(loop, "one", "noon")])
        clock.wait(10.5)
        store.append_blocking([Reward(loop="default", event_id="one", timestamp=clock(), value=1.0)] * came)
        loop.learn()
        states.append(loop.published.bandit.state)
        assert store.summary("default").rewards.get(EventStatus.LATE, 0) == came
    np.testing.assert_array_equal(states[0], states[1])


def test_a_briefly_wrong_clock_does_no_harm(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 20)
    clock.wait(1_000_000)
    loop.learn()
    clock.wait(-1_000_000)
    play_rounds(loop, store, clock, 20, first=20)
    assert store.summary("default").rewards[EventStatus.LATE] == 0
    assert verify(store, "default").learned == 40


@pytest.mark.parametrize(("activated", "learned"), [(True, 1.0), (False, 0.0)])
def test_a_deferred_decision_is_learned_if_activated(tmp_path: Path, activated: bool, learned: float) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    before = loop.published.bandit.state
    store.append_blocking([ask(loop, "one", "noon", deferred=True)])
    store.append_blocking([Reward(loop="default", event_id="one", timestamp=clock(), value=1.0)])
    if activated:
        store.append_blocking([Activation(loop="default", event_id="one", timestamp=clock())])
    clock.wait(11)
    assert loop.learn() == 1
    assert np.array_equal(before, loop.published.bandit.state) != bool(learned)


@pytest.mark.parametrize("mode", [Mode.APPRENTICE, Mode.LOGGING])
def test_other_modes_show_the_first_action(tmp_path: Path, mode: Mode) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), mode=mode)
    before = loop.published.bandit.state
    decisions = [ask(loop, f"{number}", "noon", excluded=[0]) for number in range(20)]
    assert {decision.shown for decision in decisions} == {1}
    assert {decision.probability for decision in decisions} == {1.0}
    assert {decision.chosen for decision in decisions} == {1, 2}
    store.append_blocking(decisions)
    clock.wait(11)
    loop.learn()
    assert np.array_equal(before, loop.published.bandit.state) == (mode is Mode.LOGGING)
    assert verify(store, "default").sound


@pytest.mark.statistics
def test_logged_probabilities_match_the_draws(tmp_path: Path) -> None:
    """Five standard errors of the share over 4000 events."""
    loop, store = small_loop(tmp_path, clock := Clock(), exploration=0.3)
    play_rounds(loop, store, clock, 200)
    decisions = [ask(loop, f"x{number}", "noon") for number in range(4000)]
    expected = np.array(decisions[0].probabilities)
    assert expected.min() >= 0.1 - 1e-12
    assert expected.sum() == pytest.approx(1.0)
    seen = np.bincount([decision.chosen for decision in decisions], minlength=3) / 4000
    assert (np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-9).all()
    assert all(decision.probability == expected[decision.chosen] for decision in decisions)


def test_excluded_actions_have_probability_0(tmp_path: Path) -> None:
    loop, _ = small_loop(tmp_path, Clock())
    for number in range(50):
        decision = ask(loop, f"{number}", "noon", excluded=[1])
        assert decision.chosen != 1
        assert decision.probabilities[1] == 0.0
    with pytest.raises(InvalidInput, match="all actions are excluded"):
        ask(loop, "none", "noon", excluded=[0, 1, 2])


def test_draws_never_choose_probability_0() -> None:
    assert draw(np.array([0.0, 1.0, 0.0]), uniform_of(0)) == 1
    assert draw(np.array([0.0, 1.0, 0.0]), uniform_of(2**63 - 1)) == 1
    assert [draw(np.array([0.5, 0.5]), uniform_of(seed)) for seed in (0, 2**62 - 1, 2**62, 2**63 - 1)] == [0, 0, 1, 1]


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.integers(0, 3),
    st.floats(0, 1),
    st.integers(0, 2**63 - 1),
)
def test_compiled_draws_equal_python_draws(own: list[float], excluded: int, exploration: float, seed: int) -> None:
    entry = entry_point(draw_recipe)
    allowed = np.arange(len(own)) + excluded
    probabilities, count = np.array(own), len(own) + excluded
    compiled, plain = np.zeros(count), np.zeros(count)
    drawn = entry.compiled()(probabilities, allowed, exploration, uniform_of(seed), compiled)
    assert drawn == entry.recipe.function(probabilities, allowed, exploration, uniform_of(seed), plain)
    assert compiled.tobytes() == plain.tobytes()
    assert not compiled[:excluded].any()


def test_dense_actions_are_decided_and_learned(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=3)
    arms = np.eye(3)
    for number in range(30):
        decision = loop.decide(
            DecisionRequest(event_id=f"{number}", request=arms.tobytes(), encoding="dense", actions=ACTIONS)
        )
        store.append_blocking(
            [
                decision,
                Reward(loop="default", event_id=f"{number}", timestamp=clock(), value=float(decision.shown == 2)),
            ]
        )
        clock.wait(11)
        loop.learn()
    assert np.argmax(decision.probabilities) == 2
    assert verify(store, "default").sound
    with pytest.raises(InvalidInput, match="an action must have 3 features"):
        loop.decide(DecisionRequest(event_id="x", request=np.eye(2).tobytes(), encoding="dense", actions=("a", "b")))


def test_a_model_is_exported_and_imported(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 60)
    exported = loop.export_model()
    loop.configure(loop.configuration, reset_model=True)
    assert not np.array_equal(loop.published.bandit.state, Bandit.from_bytes(exported).state)
    loop.import_model(exported)
    np.testing.assert_array_equal(loop.published.bandit.state, Bandit.from_bytes(exported).state)
    with pytest.raises(InvalidInput, match="Configure the loop first"):
        loop.import_model(Bandit(Optimist(link="identity"), dim=5, seed=1).to_bytes())
    assert verify(store, "default").sound


def test_rewards_are_aggregated_in_any_order() -> None:
    rewards = ((1, 0.1), (2, 0.2), (3, 0.7), (4, -1.0))
    expected = {
        Aggregation.EARLIEST: 0.1,
        Aggregation.SUM: 0.0,
        Aggregation.AVERAGE: 0.0,
        Aggregation.MEDIAN: 0.15,
        Aggregation.MIN: -1.0,
        Aggregation.MAX: 0.7,
    }
    for how, value in expected.items():
        aggregates = {aggregate(order, how) for order in permutations(rewards)}
        assert len(aggregates) == 1
        assert aggregates.pop() == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"reward_wait": -1.0}, "rewardWait must be a duration of at most 60d"),
        ({"exploration": 1.5}, "exploration must be"),
        ({"policy": "ucb-glm", "settings": {}}, "stores all past rewards"),
        ({"retention_days": 0}, "retentionDays must be a whole number"),
    ],
)
def test_a_wrong_configuration_is_refused(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoopConfig(**settings_)  # type: ignore[arg-type]


def test_a_configuration_is_stored_as_json() -> None:
    configuration = LoopConfig(policy="optimist", settings=settings_of(Optimist(link="logistic")), exploration=0.0)
    assert msgspec.json.decode(msgspec.json.encode(configuration), type=LoopConfig) == configuration


def test_policies_without_exact_probabilities_raise() -> None:
    from glbandits.policies import LaplaceTs

    with pytest.raises(InvalidInput, match="has no exact probabilities"):
        decide(Bandit(LaplaceTs(), dim=2, seed=1), np.eye(2), np.arange(2), 0.1, 1)


def test_policies_without_exact_probabilities_are_refused(tmp_path: Path) -> None:
    loop, _ = small_loop(tmp_path, Clock())
    before = loop.configuration
    with pytest.raises(InvalidInput, match="laplace-ts with these settings has no exact"):
        loop.configure(LoopConfig(policy="laplace-ts", settings={}))
    assert loop.configuration == before


def test_deleted_decisions_are_not_differences(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    made = play_rounds(loop, store, clock, 100)
    state = loop.published.bandit.state
    assert loop.delete_log(made[50].timestamp) == 40  # ten are needed to repeat later ones
    np.testing.assert_array_equal(loop.published.bandit.state, state)
    play_rounds(loop, store, clock, 40, first=1000)
    result = verify(store, "default")
    assert (result.sound, result.unchecked, result.decisions) == (True, 0, 100)
    assert result.learned == 80
    assert loop.delete_log(clock()) == 100
    assert verify(store, "default").sound


def test_retained_decisions_can_be_repeated_after_every_deletion(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    made, deleted = play_rounds(loop, store, clock, 60), 0
    for day in range(5):
        if day == 2:
            loop.configure(loop.configuration, reset_model=True)
        made += play_rounds(loop, store, clock, 60, first=1000 * (day + 1), seed=day + 1)
        deleted += loop.delete_log(made[-70].timestamp)
        result = verify(store, "default")
        assert (result.different, result.unchecked) == (0, 0), result.messages
        assert result.decisions == len(made) - deleted
        assert deleted >= len(made) - 110
    decision = store.search("default", "", 1, before=store.find("default", "", 100)[-1] + 1)[0].decision
    assert model_that_decided(store, decision, 1000) is not None


def test_a_stop_ends_learning_and_deletion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_by, store = small_loop(tmp_path, clock := Clock())
    monkeypatch.setattr("glbandits.service.runtime.loops.learning_loop.LEARNED_AT_ONCE", 10)
    monkeypatch.setattr("glbandits.service.storage.loop_store.DELETED_AT_ONCE", 10)
    store.append_blocking([ask(made_by, f"e{number}", "noon") for number in range(40)])
    clock.wait(11)
    stop = threading.Event()
    loop = Loop("default", store, clock, stop=stop)
    monkeypatch.setattr(loop.statistics, "add", lambda *_: stop.set())
    assert loop.learn() == 10
    assert loop.delete_log(clock()) == 0
    made_by.learn()
    monkeypatch.setattr(stop, "is_set", iter([False, False, False, True]).__next__)
    assert loop.delete_log(clock()) == 20
    assert len(store.search("default", "", 100)) == 20


def test_unlearned_decisions_are_not_deleted(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    made = play_rounds(loop, store, clock, 30)  # of which 20 are learned
    assert loop.delete_log(clock() + 1) == 20
    assert store.decision("default", made[20].event_id) is not None
    clock.wait(11)
    assert loop.learn() == 10


@pytest.mark.parametrize("all_of_it", [True, False])
def test_an_interrupted_deletion_leaves_a_sound_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_of_it: bool
) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    made = play_rounds(loop, store, clock, 100)
    before = clock() if all_of_it else made[50].timestamp
    monkeypatch.setattr("glbandits.service.storage.loop_store.DELETED_AT_ONCE", 20)
    delete, steps = store._delete_oldest, iter([True, True, False])

    def deleted(*args: Any) -> int:
        if not next(steps):
            raise KeyboardInterrupt
        return delete(*args)

    with monkeypatch.context() as patched:
        patched.setattr(store, "_delete_oldest", deleted)
        with pytest.raises(KeyboardInterrupt):
            loop.delete_log(before)
    again = Loop("default", store, clock)
    play_rounds(again, store, clock, 40, first=1000)
    result = verify(store, "default")
    expected = (True, 60, 40) if all_of_it else (True, 0, 100)
    assert (result.sound, result.unchecked, result.decisions) == expected
    assert again.delete_log(before) == (60 if all_of_it else 0)


def test_retention_passes_decisions_of_a_clock_that_was_ahead(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 20)
    clock.wait(10**6)
    ahead = play_rounds(loop, store, clock, 5, first=100)
    clock.wait(11)
    loop.learn()
    clock.wait(-(10**6))
    play_rounds(loop, store, clock, 20, first=200)
    kept_since = clock()
    recent = play_rounds(loop, store, clock, 20, first=300)
    assert loop.delete_log(kept_since) == 40
    kept = {logged.decision.event_id for logged in store.search("default", "", 100)}
    assert kept == {made.event_id for made in (*ahead, *recent)}
    assert verify(store, "default").sound
    assert loop.delete_log(kept_since) == 0


def test_bases_of_deleted_epochs_are_deleted(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    for first in range(0, 100, 20):
        play_rounds(loop, store, clock, 20, first=first)
        loop.configure(loop.configuration, reset_model=True)
        assert loop.delete_log(clock()) == 20
    assert len(store.documents("default", BASE)) == 1
    assert verify(store, "default").sound
    assert loop.delete_log(clock()) == 0
    assert loop.published.epoch == 11
