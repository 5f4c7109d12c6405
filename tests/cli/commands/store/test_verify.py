from pathlib import Path

import msgspec
from typer.testing import CliRunner

from glbandits import InvalidInput
from glbandits.cli.app import app
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop


def test_unchanged_log_has_no_difference(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 40)
    store.close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 0
    assert (
        "default: 40 decisions; rewards: accepted 40, duplicate 0, late 0, out of range 0, unknown 0" in result.output
    )
    assert "40 decisions repeated with 3 models, 40 learned again: no difference" in result.output


def test_forged_decision_differs_and_exit_code_is_1(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    decision = play_rounds(loop, store, clock, 10)[0]
    store.append_blocking([msgspec.structs.replace(decision, event_id="forged", seed=1)])
    store.close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 1
    assert "1 differ" in result.output
    assert "(forged): replay has the seed" in result.output


def test_decisions_and_rewards_are_counted(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 5)
    store.close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 0
    assert "5 decisions; rewards: accepted 5" in result.output


def test_all_loops_are_verified_by_default(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 5)
    play_rounds(Loop("shop", store, clock), store, clock, 7)
    Loop("new", store, clock)
    store.close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 0
    assert "default: 5 decisions repeated" in result.output
    assert "shop: 7 decisions repeated" in result.output
    assert "new: 0 decisions repeated with 0 models, 0 learned again: nothing to repeat" in result.output


def test_store_without_a_loop_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "events.sqlite").close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert isinstance(result.exception, InvalidInput)
    assert "has no loop" in str(result.exception)


def test_nothing_to_repeat_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    small_loop(tmp_path, Clock())[1].close()
    result = CliRunner().invoke(app, ["store", "verify", "--store", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 3
    assert "Nothing was verified for default" in result.output
