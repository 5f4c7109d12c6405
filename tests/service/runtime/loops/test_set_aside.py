"""Decisions that cannot be learned are set aside: they stop neither learning nor replay."""

import logging
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from glbandits.bandit import Bandit
from glbandits.cli.app import app
from glbandits.service.domain.events import Aggregation, Reward
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_statistics import Window
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import CONTEXTS, Clock, ask, play_rounds, small_loop


def reward_twice(loop: Loop, store: SqliteStore, clock: Clock, value: float) -> None:
    """A decision with two rewards that are valid alone."""
    rewards = [Reward(loop=loop.name, event_id="bad", timestamp=clock(), value=value) for _ in range(2)]
    store.append_blocking([ask(loop, "bad", CONTEXTS[0]), *rewards])


@pytest.mark.parametrize("aggregation", [Aggregation.SUM, Aggregation.AVERAGE, Aggregation.MEDIAN])
@pytest.mark.parametrize("value", [1e50, 1.7e308, -1.7e308])
def test_huge_rewards_do_not_stop_learning(tmp_path: Path, aggregation: Aggregation, value: float) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), aggregation=aggregation)
    play_rounds(loop, store, clock, 20)
    reward_twice(loop, store, clock, value)
    play_rounds(loop, store, clock, 20, first=100)
    assert loop.published.learned_through == store.last_sequence("default")
    usable = aggregation is not Aggregation.SUM and value == 1e50
    assert loop.published.set_aside == (0 if usable else 1)
    assert loop.statistics.view(Window.ALL).total.learned == 41 - loop.published.set_aside
    result = verify(store, "default")
    assert (result.sound, result.set_aside) == (True, loop.published.set_aside)


def test_a_decision_set_aside_does_not_change_the_model(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), aggregation=Aggregation.SUM)
    play_rounds(loop, store, clock, 20)
    before = loop.published.bandit.state
    reward_twice(loop, store, clock, 1e50)
    clock.wait(11)
    assert loop.learn() == 1
    np.testing.assert_array_equal(loop.published.bandit.state, before)


def test_the_count_survives_a_restart_and_a_reset(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), aggregation=Aggregation.SUM)
    reward_twice(loop, store, clock, 1e50)
    clock.wait(11)
    loop.learn()
    again = Loop("default", store, clock)
    assert again.published.set_aside == 1
    again.configure(again.configuration, reset_model=True)
    assert Loop("default", store, clock).published.set_aside == 1
    loop.refresh()
    assert loop.published.set_aside == 1


def test_features_that_the_model_refuses_are_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    broken = replace(ask(loop, "broken", CONTEXTS[0]), request=b"{")
    store.append_blocking([broken, ask(loop, "good", CONTEXTS[0])])
    clock.wait(11)
    with caplog.at_level(logging.WARNING):
        assert loop.learn() == 2
    assert loop.published.set_aside == 1
    assert "1 decisions cannot be learned and are set aside. The first: events 'broken'" in caplog.text


def test_other_errors_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    loop, store = small_loop(tmp_path, clock := Clock())
    store.append_blocking([ask(loop, "good", CONTEXTS[0])])
    clock.wait(11)
    with monkeypatch.context() as patched:
        patched.setattr(Bandit, "learn", full)
        with pytest.raises(MemoryError):
            loop.learn()
    assert loop.learn() == 1
    assert loop.published.set_aside == 0


def test_verify_command_counts_decisions_that_are_set_aside(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), aggregation=Aggregation.SUM)
    reward_twice(loop, store, clock, 1e50)
    clock.wait(11)
    loop.learn()
    store.close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 0
    assert "1 decisions were set aside" in result.output
