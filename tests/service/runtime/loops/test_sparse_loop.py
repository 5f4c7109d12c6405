"""Sparse loops: a hashed width of up to 2**24, with everything that a loop does."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from glbandits import Bandit, EpsilonGreedy, InvalidInput, Optimist
from glbandits.policies.contract import settings_of
from glbandits.service.domain import decision_learning
from glbandits.service.domain.events import Decision, DecisionRequest, Mode, Reward
from glbandits.service.domain.explanation import explain
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel
from glbandits.service.domain.request_features import DENSE
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, play_rounds, small_loop

WIDE = 2**24
GREEDY: dict[str, Any] = {
    "policy": "epsilon-greedy",
    "settings": settings_of(EpsilonGreedy(link="identity", fit="online")),
    "reward_range": (-1.0, 1.0),
}


def test_wide_loop_is_sparse_and_learns(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    assert loop.published.bandit.sparse
    made = play_rounds(loop, store, clock, 200)
    right = [d.shown == CONTEXTS.index(_context(d.request)) for d in made[100:]]
    assert sum(right) > 60  # a random choice would be right 33 times; the seed is fixed
    learned = loop.published.bandit.coefficients()
    assert learned is not None
    assert learned.indices is not None
    assert 10 < learned.indices.size <= 16  # constant, 3 contexts, 3 actions, 9 products
    assert len(loop.export_model()) < 10_000
    assert verify(store, "default").sound
    store.close()


def _context(request: bytes) -> str:
    return next(context for context in CONTEXTS if context.encode() in request)


def test_model_continues_after_a_restart(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    play_rounds(loop, store, clock, 60)
    loop.close()
    again = Loop("default", store, clock)
    assert again.published.bandit.sparse
    assert again.published.bandit.state.tobytes() == loop.published.bandit.state.tobytes()
    assert ask(again, "x", "noon").probabilities == ask(loop, "x", "noon").probabilities
    store.close()


def test_model_is_exported_and_imported(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    play_rounds(loop, store, clock, 60)
    content, state = loop.export_model(), loop.published.bandit.state.tobytes()
    loop.configure(loop.configuration, reset_model=True)
    assert loop.published.bandit.state.tobytes() != state
    loop.import_model(content)
    assert loop.published.bandit.state.tobytes() == state
    dense = Bandit(Optimist(link="identity"), 32, seed=0)
    loop.configure(LoopConfig(width=32, sparse=True), reset_model=True)
    with pytest.raises(InvalidInput, match=r"must be like that of the loop, Bandit\(.*sparse=True\); got Bandit\("):
        loop.import_model(dense.to_bytes())
    store.close()


def test_another_form_starts_a_new_model(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=16)
    play_rounds(loop, store, clock, 40)
    epochs = [loop.published.epoch]
    for sparse in (True, None, False, True):
        loop.reconfigure(partial(replace, sparse=sparse), reset_model=sparse is not False)
        epochs.append(loop.published.epoch)
        assert loop.published.bandit.sparse == bool(sparse)
    assert np.diff(epochs).tolist() == [1, 1, 0, 1]  # None is false for this width
    loop.reconfigure(partial(replace, width=WIDE, sparse=None), reset_model=True)
    play_rounds(loop, store, clock, 40, first=100)
    loop.reconfigure(partial(replace, width=16), reset_model=True)
    play_rounds(loop, store, clock, 40, first=200)
    result = verify(store, "default")
    assert result.sound, result.messages
    assert result.decisions == 120
    store.close()


@pytest.mark.parametrize("mode", [Mode.APPRENTICE, Mode.LOGGING])
def test_other_modes_show_the_baseline(tmp_path: Path, mode: Mode) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE, mode=mode)
    made = play_rounds(loop, store, clock, 40)
    assert {decision.shown for decision in made} == {0}
    learned = loop.published.bandit.coefficients()
    assert learned is not None
    assert learned.indices is not None
    assert (learned.indices.size > 0) == (mode is Mode.APPRENTICE)
    assert verify(store, "default").sound
    store.close()


def test_excluded_actions_have_probability_0(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    play_rounds(loop, store, clock, 40)
    made = ask(loop, "some", "noon", excluded=(1,))
    assert made.probabilities[1] == 0.0
    assert sum(made.probabilities) == pytest.approx(1.0)
    store.close()


def test_a_sparse_loop_accepts_vectors(tmp_path: Path) -> None:
    """The same decisions as those of the dense twin, because nothing differs but the form."""
    made: dict[bool, list[Decision]] = {}
    for sparse in (False, True):
        (folder := tmp_path / str(sparse)).mkdir()
        loop, store = small_loop(folder, clock := Clock(), width=5, sparse=sparse, **GREEDY)
        rng, made[sparse] = np.random.default_rng(0), []
        for number in range(60):
            arms = rng.integers(-1, 2, (4, 5)).astype(float)
            request = DecisionRequest(
                event_id=f"e{number}", request=arms.tobytes(), encoding=DENSE, actions=tuple("abcd")
            )
            decision = loop.decide(request)
            reward = Reward(
                loop="default", event_id=f"e{number}", timestamp=clock(), value=float(arms[decision.shown, 0])
            )
            store.append_blocking([decision, reward])
            made[sparse].append(decision)
            if number % 10 == 9:
                clock.wait(11)
                loop.learn()
        assert verify(store, "default").sound
        with pytest.raises(InvalidInput, match="an action must have 5 features"):
            loop.decide(replace(request, request=arms[:, :4].tobytes()))
        with pytest.raises(InvalidInput, match="finite numbers"):
            loop.decide(replace(request, request=(arms * np.nan).tobytes()))
        store.close()
    for dense, sparse_one in zip(made[False], made[True], strict=True):
        assert dense.shown == sparse_one.shown
        np.testing.assert_allclose(dense.probabilities, sparse_one.probabilities, rtol=0, atol=1e-9)


def test_features_are_explained_by_name(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    play_rounds(loop, store, clock, 100)
    made, model = ask(loop, "why", "noon"), loop.published
    explained = explain(made, model.bandit, model.encoder)[1]
    names = {term.feature for term in explained.contributions}
    assert names == {"intercept", "constant", "time=noon", "topic=sports", "time=noon * topic=sports"}
    assert explained.score == pytest.approx(sum(term.contribution for term in explained.contributions))
    assert explained.score > 0.3  # sports at noon is right
    store.close()


def test_new_features_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_learning, "LARGEST_SPARSE_MODEL", 3000)
    loop, store = small_loop(tmp_path, clock := Clock(), width=WIDE)
    play_rounds(loop, store, clock, 100)
    known = loop.published.bandit.coefficients()
    for number in range(200):
        made = ask(loop, f"hostile {number}", f"never again {number}")
        store.append_blocking([made, Reward(loop="default", event_id=made.event_id, timestamp=clock(), value=1.0)])
    clock.wait(11)
    loop.learn()
    assert 1000 < loop.published.bandit.state.size <= 3000
    before, count = loop.published.bandit.coefficients(), loop.published.learned_through
    play_rounds(loop, store, clock, 40, first=100)
    after = loop.published.bandit.coefficients()
    assert loop.published.learned_through > count
    assert known is not None
    assert known.indices is not None
    assert before is not None
    assert after is not None
    assert 126 <= before.theta.size <= after.theta.size <= 128  # half of the 256 rows that 3000 numbers have room for
    assert not np.array_equal(before.at(known.indices), after.at(known.indices))  # but what is known goes on learning
    assert verify(store, "default").sound
    store.close()


@pytest.mark.parametrize(("width", "form"), [(WIDE, True), (64, True), (5000, False), (64, False)])
def test_a_loop_starts_with_a_model_of_either_form(tmp_path: Path, width: int, form: bool) -> None:
    bandit = Bandit(Optimist(link="identity"), width, seed=0, sparse=form)
    bandit.save(tmp_path / "model")
    first = FirstModel.load(str(tmp_path / "model"))
    _, store = small_loop(tmp_path, Clock())
    fresh = Loop("other", store, Clock(), first_model=first)
    assert fresh.configuration.is_sparse == fresh.published.bandit.sparse == form
    assert fresh.published.bandit.dim == width
    assert ask(fresh, "x", "noon").probabilities == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    store.close()
