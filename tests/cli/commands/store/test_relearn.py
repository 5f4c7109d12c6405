"""`glb store relearn`: the whole log, under the present settings."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from glbandits.cli.app import app
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.damaged_models import damage_base, truncated
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop

LOOP = tuple[Loop, SqliteStore, Clock]


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> LOOP:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 60)
    return loop, store, clock


def relearn(tmp_path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["store", "relearn", "--store", str(tmp_path / "events.sqlite"), *words])


def test_the_same_settings_give_the_same_model_in_a_new_epoch(tmp_path: Path, world: LOOP) -> None:
    loop, store, clock = world
    before = loop.published
    damage_base(store, truncated)
    result = relearn(tmp_path)
    assert result.exit_code == 0, result.output
    assert f"Learned the log up to decision {before.learned_through} again; 0 decisions set aside." in result.output
    loop.refresh()
    assert (loop.published.epoch, loop.published.learned_through) == (before.epoch + 1, before.learned_through)
    np.testing.assert_array_equal(loop.published.bandit.state, before.bandit.state)
    play_rounds(loop, store, clock, 20, first=60)
    assert verify(store, "default").sound


def test_changed_settings_are_learned_beside_a_server(tmp_path: Path, world: LOOP) -> None:
    loop, store, clock = world
    loop.reconfigure(lambda current: msgspec.structs.replace(current, width=64))
    assert loop.is_relearning
    assert relearn(tmp_path).exit_code == 0
    loop.learn()
    assert (loop.is_relearning, loop.published.bandit.dim) == (False, 64)
    play_rounds(loop, store, clock, 20, first=60)
    assert verify(store, "default").sound


def test_a_log_with_deleted_decisions_needs_the_option(tmp_path: Path, world: LOOP) -> None:
    loop, _, clock = world
    assert loop.delete_log(clock.now - 15_000_000) > 0
    assert "Set reset_model to learn what is left" in str(relearn(tmp_path).exception)
    assert relearn(tmp_path, "--reset-model").exit_code == 0
    assert relearn(tmp_path).exit_code == 0  # the model has learned the log, and nothing else


def test_an_unknown_loop_is_not_created(tmp_path: Path, world: LOOP) -> None:
    assert "unknown loop 'shop'" in str(relearn(tmp_path, "--loop", "shop").exception)
    assert world[1].names_with("base") == ["default"]
