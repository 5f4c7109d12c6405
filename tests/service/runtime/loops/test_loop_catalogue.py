"""Decisions of a loop from its catalogue: what is drawn, logged, learned, judged and verified."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits.bandit import Bandit, bandit
from glbandits.common.errors import InvalidInput
from glbandits.service.domain.catalogues.catalogue_records import CatalogueQuery, CatalogueRequest, NewArm
from glbandits.service.domain.errors import VersionConflict
from glbandits.service.domain.events import Decision, Mode, Reward
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.verdict import LoopVerdict, judge_past
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import Clock, small_loop

DIM = 3
MAX_ARMS = 1000


def dense(ids: list[str], seed: int = 0, dim: int = DIM) -> list[NewArm]:
    features = np.random.default_rng(seed).normal(size=(len(ids), dim))
    return [NewArm(name, "dense", row.tobytes()) for name, row in zip(ids, features, strict=True)]


def named(count: int) -> list[str]:
    return [f"arm {index}" for index in range(count)]


def put(loop: Loop, arms: list[NewArm], **more: Any) -> int:
    return loop.catalogue.put(arms, max_arms=MAX_ARMS, **more)


def ask(loop: Loop, event_id: str, **query: Any) -> Decision:
    return loop.decide_from_catalogue(CatalogueRequest(event_id=event_id, query=CatalogueQuery(**query)))


def play_rounds(
    loop: Loop, store: SqliteStore, clock: Clock, rounds: int, first: int = 0, **query: Any
) -> list[Decision]:
    """Decisions and rewards: the first feature of an arm is what it earns."""
    made = []
    for number in range(first, first + rounds):
        decision = ask(loop, f"event-{number}", **query)
        value = float(np.frombuffer(decision.request).reshape(len(decision.actions), -1)[decision.shown, 0])
        store.append_blocking([decision])
        store.append_blocking([Reward(loop=loop.name, event_id=decision.event_id, timestamp=clock(), value=value)])
        made.append(decision)
        if number % 10 == 9:
            clock.wait(11)
            loop.learn()
    return made


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> tuple[Loop, SqliteStore, Clock]:
    clock = Clock()
    loop, store = small_loop(tmp_path, clock, width=DIM)
    return loop, store, clock


World = tuple[Loop, SqliteStore, Clock]


def test_only_the_chosen_arm_and_its_propensity_are_logged(world: World) -> None:
    loop, _, _ = world
    arms = dense(named(50))
    assert put(loop, arms) == 1
    made = ask(loop, "e")
    assert made.actions[0] in named(50)
    assert made.request == arms[named(50).index(made.actions[0])].features
    assert (len(made.actions), made.shown, made.baseline, made.probabilities) == (1, 0, None, (made.probability,))
    assert made.catalogue is not None
    assert (made.catalogue.version, made.catalogue.arms) == (1, 50)
    assert made.probability <= made.catalogue.highest


def test_probabilities_are_those_of_the_model_and_exploration(world: World) -> None:
    loop, store, clock = world
    arms = dense(named(20))
    put(loop, arms)
    play_rounds(loop, store, clock, 30)
    matrix = np.array([np.frombuffer(arm.features) for arm in arms])
    exact = Bandit.from_bytes(loop.export_model()).exact_probabilities(matrix)
    assert exact is not None
    for number in range(20):
        made = ask(loop, f"later {number}")
        index = named(20).index(made.actions[0])
        assert made.probability == pytest.approx(0.8 * exact[index] + 0.2 / 20, rel=1e-9)
        assert made.catalogue is not None
        assert made.catalogue.highest == pytest.approx(0.8 * exact.max() + 0.2 / 20, rel=1e-9)


def test_draws_follow_the_probabilities(world: World) -> None:
    """The frequency of each of 4 arms in 4000 draws is within 5 standard errors: a false alarm in 4e5 runs."""
    loop, store, clock = world
    put(loop, dense(named(4)))
    play_rounds(loop, store, clock, 20)
    made = [ask(loop, f"draw {number}") for number in range(4000)]
    for name in named(4):
        share = np.mean([decision.actions[0] == name for decision in made])
        expected = ask_probability(loop, name)
        assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)


def ask_probability(loop: Loop, name: str) -> float:
    decision = ask(loop, "probability", baseline=name)
    return decision.probabilities[0]


def test_the_same_event_draws_the_same_arm_after_a_restart(world: World) -> None:
    loop, store, clock = world
    put(loop, dense(named(30)))
    put(loop, dense(["arm 3"], seed=1))
    loop.catalogue.retire_and_restore(["arm 5", "arm 9"], [], max_arms=MAX_ARMS)
    again = Loop("default", store, clock)
    for number in range(50):
        first, second = ask(loop, f"e{number}"), ask(again, f"e{number}")
        assert (first.actions, first.probabilities) == (second.actions, second.probabilities)


def test_another_process_sees_a_change_when_it_refreshes(world: World) -> None:
    loop, store, clock = world
    other = Loop("default", store, clock)
    with pytest.raises(InvalidInput, match="the catalogue is empty; add arms to it first"):
        ask(other, "e")
    put(loop, dense(named(3)))
    assert ask(other, "e").actions[0] in named(3)
    put(loop, dense(["new"]))
    assert len(other.catalogue.served) == 3
    assert ask(other, "f", only=("new",)).actions == ("new",)  # an unknown id is looked up at once
    loop.catalogue.delete()
    other.catalogue.refresh()
    assert len(other.catalogue.served) == 0


def test_retired_arms_are_not_chosen_until_restored(world: World) -> None:
    loop, _, _ = world
    put(loop, dense(named(3)))
    loop.catalogue.retire_and_restore(["arm 0", "arm 1"], [], max_arms=MAX_ARMS)
    assert {ask(loop, f"e{number}").actions for number in range(20)} == {("arm 2",)}
    with pytest.raises(InvalidInput, match="only: version 2 of the catalogue has no arm"):
        ask(loop, "f", only=("arm 0",))
    assert loop.catalogue.retire_and_restore([], ["arm 0"], max_arms=MAX_ARMS) == 3
    assert ask(loop, "f", only=("arm 0",)).request == dense(named(3))[0].features


def test_restored_arms_count_towards_the_limit(world: World) -> None:
    loop, _, _ = world
    put(loop, dense(named(2)))
    loop.catalogue.retire_and_restore(["arm 0"], [], max_arms=2)
    put(loop, dense(["new"]))
    with pytest.raises(InvalidInput, match="a catalogue may have 2 arms"):
        loop.catalogue.retire_and_restore([], ["arm 0"], max_arms=2)
    loop.catalogue.retire_and_restore(["new"], ["arm 0"], max_arms=2)
    assert len(loop.catalogue.served) == 2


def test_changes_without_effect_make_no_version(world: World) -> None:
    loop, _, _ = world
    assert put(loop, dense(named(3))) == put(loop, dense(named(3))) == 1
    assert (
        loop.catalogue.retire_and_restore(["arm 1"], [], max_arms=MAX_ARMS)
        == loop.catalogue.retire_and_restore(["arm 1"], [], max_arms=MAX_ARMS)
        == 2
    )
    assert loop.catalogue.retire_and_restore([], ["arm 0"], max_arms=MAX_ARMS) == 2


def test_excluded_arms_are_not_chosen(world: World) -> None:
    loop, _, _ = world
    put(loop, dense(named(3)))
    made = [ask(loop, f"e{number}", excluded=("arm 0", "unheard-of")) for number in range(30)]
    assert {decision.actions[0] for decision in made} == {"arm 1", "arm 2"}
    assert ask(loop, "f", only=("arm 0", "arm 2"), excluded=("arm 0",)).probability == 1.0
    with pytest.raises(InvalidInput, match="all 3 arms of the catalogue are excluded"):
        ask(loop, "g", only=("arm 0",), excluded=("arm 0",))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"only": ("x",)}, "only: version 1 of the catalogue has no arm 'x'"),
        ({"baseline": "x"}, "baseline: version 1 of the catalogue has no arm 'x'"),
        (
            {"baseline": "arm 0", "excluded": ("arm 0",)},
            "baseline must be an arm that may be chosen; 'arm 0' is excluded",
        ),
        ({"context": (1.0,)}, "context must have 0 numbers, because .*; got 1"),
    ],
)
def test_invalid_queries_are_refused(world: World, query: dict[str, Any], message: str) -> None:
    loop, _, _ = world
    put(loop, dense(named(3)))
    with pytest.raises(InvalidInput, match=message):
        ask(loop, "e", **query)


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (dense(["x"], dim=4), "an arm must have 3 features, the width of the loop.*; got 4"),
        (
            [*dense(["x"]), *dense(["y"], dim=2)],
            "all arms must have the same number of features; 'x' has 3, and 'y' has 2",
        ),
        ([NewArm("x", "dense", np.array([1.0, np.nan, 0.0]).tobytes())], "features"),
        (
            [NewArm("x", "json", b'{"a":1}')],
            "all arms of a catalogue must have the same kind of features; it has dense arms of 3",
        ),
        (dense([f"x{number}" for number in range(MAX_ARMS)]), "a catalogue may have 1000 arms; it would have 1001"),
    ],
)
def test_invalid_arms_are_refused(world: World, arms: list[NewArm], message: str) -> None:
    loop, _, _ = world
    put(loop, dense(["first"]))
    with pytest.raises(InvalidInput, match=message):
        put(loop, arms)
    assert loop.catalogue.served.numbers == {"first": 1}


def test_a_change_after_another_version_is_refused(world: World) -> None:
    loop, _, _ = world
    put(loop, dense(["a"]), expected_version=0)
    with pytest.raises(VersionConflict, match="the catalogue has version 1, not 0"):
        put(loop, dense(["b"]), expected_version=0)


def test_unknown_arms_cannot_be_retired_or_restored(world: World) -> None:
    loop, _, _ = world
    put(loop, dense(["a"]))
    for retire, restore in ((["b"], []), ([], ["b"])):
        with pytest.raises(InvalidInput, match="the catalogue has no arm 'b'"):
            loop.catalogue.retire_and_restore(["a", *retire], restore, max_arms=MAX_ARMS)
    assert "a" in loop.catalogue.served


def test_logged_features_are_learned(world: World) -> None:
    loop, store, clock = world
    put(loop, dense(named(20)))
    made = play_rounds(loop, store, clock, 60)
    best = max(dense(named(20)), key=lambda arm: np.frombuffer(arm.features)[0]).id
    assert sum(decision.actions[0] == best for decision in made[-20:]) >= 10
    assert loop.published.learned_through == 2 * 60 - 1


def test_arms_are_combined_with_a_context(tmp_path: Path) -> None:
    clock = Clock()
    loop, store = small_loop(tmp_path, clock, width=2 + 3 + 2 * 3)
    put(loop, dense(named(5), dim=2))
    made = play_rounds(loop, store, clock, 20, context=(1.0, 0.0, -1.0))
    x = np.frombuffer(made[0].request)
    np.testing.assert_array_equal(x[:5], [*x[:2], 1.0, 0.0, -1.0])
    assert verify(store, "default").sound
    with pytest.raises(InvalidInput, match="context must have 3 numbers, because .*; got 0"):
        ask(loop, "e")


def test_arms_of_fields_are_hashed(tmp_path: Path) -> None:
    clock = Clock()
    loop, store = small_loop(tmp_path, clock, width=16)
    put(loop, [NewArm(name, "json", b'{"topic":"%s"}' % name.encode()) for name in named(5)])
    made = ask(loop, "e", baseline="arm 0")
    assert made.encoding == "json"
    store.append_blocking([made])
    clock.wait(11)
    assert loop.learn() == 1
    assert loop.published.set_aside == 0
    assert verify(store, "default").sound
    loop.configure(LoopConfig(width=32))  # other features of the same fields
    assert ask(loop, "f").actions[0] in named(5)


@pytest.mark.parametrize("mode", [Mode.APPRENTICE, Mode.LOGGING])
def test_other_modes_show_the_named_baseline(tmp_path: Path, mode: Mode) -> None:
    clock = Clock()
    loop, store = small_loop(tmp_path, clock, width=DIM, mode=mode)
    put(loop, dense(named(5)))
    with pytest.raises(
        InvalidInput, match=f"baseline is missing: the mode {mode} shows it. Name an arm of the catalogue"
    ):
        ask(loop, "e")
    made = play_rounds(loop, store, clock, 20, baseline="arm 2")
    assert {(decision.actions[decision.shown], decision.probability) for decision in made} == {("arm 2", 1.0)}
    assert verify(store, "default").sound
    coefficients = loop.published.bandit.coefficients()
    assert coefficients is not None
    assert coefficients.theta.any() == (mode is Mode.APPRENTICE)


def test_evidence_needs_a_named_baseline(world: World) -> None:
    loop, store, clock = world
    loop.configure(replace(loop.configuration, reward_range=(-10.0, 10.0)))
    put(loop, dense(named(5)))
    play_rounds(loop, store, clock, 10)
    assert judge_past(loop.published.evidence).verdict is LoopVerdict.NO_BASELINE
    play_rounds(loop, store, clock, 10, first=10, baseline="arm 1")
    assert loop.published.evidence.past.decisions == 10
    assert loop.published.evidence.without_baseline == 10


@pytest.mark.parametrize("bounds", [False, True])
def test_verification_uses_the_logged_versions(world: World, monkeypatch: pytest.MonkeyPatch, bounds: bool) -> None:
    if bounds:
        monkeypatch.setattr(bandit, "WORTH_BOUNDS", 0.0)
    loop, store, clock = world
    put(loop, dense(named(20)))
    made = play_rounds(loop, store, clock, 20)
    loop.catalogue.retire_and_restore([decision.actions[0] for decision in made[:3]], [], max_arms=MAX_ARMS)
    made += play_rounds(loop, store, clock, 20, first=20, excluded=("arm 0",))
    put(loop, dense(named(8), seed=5))
    play_rounds(loop, store, clock, 20, first=40, baseline="arm 7")
    result = verify(store, "default")
    assert (result.decisions, result.unchecked, result.different) == (60, 0, 0)


def test_verification_finds_another_arm(world: World) -> None:
    loop, store, clock = world
    put(loop, dense(named(20)))
    made = ask(loop, "e")
    other = next(arm for arm in dense(named(20)) if arm.id != made.actions[0])
    store.append_blocking([replace(made, actions=(other.id,), request=other.features)])
    store.append_blocking([replace(made, event_id="f")])
    clock.wait(11)
    loop.learn()
    first, second = verify(store, "default").messages
    assert "replay drew the arms" in first
    assert "replay has the seed" in second


def test_deleted_versions_are_left_unchecked(world: World) -> None:
    loop, store, clock = world
    put(loop, dense(named(20)))
    play_rounds(loop, store, clock, 10)
    loop.catalogue.delete()
    put(loop, dense(named(5)))
    play_rounds(loop, store, clock, 10, first=10)
    result = verify(store, "default")
    assert (result.decisions, result.unchecked, result.different) == (10, 10, 0)


def test_deleting_the_log_deletes_retired_arms(world: World) -> None:
    loop, store, _ = world
    put(loop, dense(named(3)))
    loop.catalogue.retire_and_restore(["arm 0"], [], max_arms=MAX_ARMS)
    loop.delete_log()
    assert list(store.arms_of_ids("default", named(3))) == ["arm 1", "arm 2"]
