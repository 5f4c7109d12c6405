"""`glb store models`: list and use."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from glbandits.cli.app import app
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import load_snapshot
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.damaged_models import damage_model, invalid, truncated
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop

LOOP = tuple[Loop, SqliteStore, Clock]


@pytest.fixture(name="world")
def world_fixture(tmp_path: Path) -> LOOP:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 60)
    return loop, store, clock


def glb(tmp_path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["store", "models", *words, "--store", str(tmp_path / "events.sqlite")])


def saved_numbers(store: SqliteStore) -> list[int]:
    numbers, last = [], 2**62
    while saved := store.model_at_most("default", last):
        numbers.append(saved.sequence)
        last = saved.sequence - 1
    return numbers


def test_list_says_which_models_can_be_loaded(tmp_path: Path, world: LOOP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, store, _ = world
    number = damage_model(store, invalid)
    result = glb(tmp_path, "list")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    (newest,) = (line for line in lines if f" {number} " in line)
    assert "no: the content has a state that is not valid for optimist" in newest
    (older,) = (line for line in lines if f" {saved_numbers(store)[1]} " in line)
    assert "yes" in older
    assert "start of epoch" in result.output


def test_use_starts_an_epoch_with_an_older_model(tmp_path: Path, world: LOOP) -> None:
    loop, store, clock = world
    last, number = loop.published.learned_through, saved_numbers(store)[1]
    saved = store.model_at_most("default", number)
    assert saved is not None
    result = glb(tmp_path, "use", str(number))
    assert result.exit_code == 0, result.output
    assert f"Decisions {number + 1} to {last} are not learned again" in result.output
    assert "epoch 2 starts with this model. Running servers adopt it within 1 s" in result.output
    loop.refresh()
    assert (loop.published.epoch, loop.published.learned_through) == (2, last)
    np.testing.assert_array_equal(loop.published.bandit.state, load_snapshot(saved.body)[1].state)
    play_rounds(loop, store, clock, 20, first=60)
    assert verify(store, "default").sound
    assert Loop("default", store, clock).published.learned_through == loop.published.learned_through


@pytest.mark.parametrize("number", ["7", "0"])
def test_use_refuses_unknown_numbers(tmp_path: Path, world: LOOP, number: str) -> None:
    loop, *_ = world
    assert f"loop default has no saved model {number}" in str(glb(tmp_path, "use", number).exception)
    loop.refresh()
    assert loop.published.epoch == 1


def test_use_refuses_models_of_another_policy_and_damaged_ones(tmp_path: Path, world: LOOP) -> None:
    loop, store, _ = world
    newest, older = saved_numbers(store)[:2]
    damage_model(store, truncated)
    assert "the snapshot is damaged" in str(glb(tmp_path, "use", str(newest)).exception)
    loop.configure(LoopConfig(width=8, reward_wait=10.0))
    assert "Configure the loop first" in str(glb(tmp_path, "use", str(older)).exception)
