from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from glbandits import InvalidInput
from glbandits.cli.app import app
from tests.serving.runtime.loops.loop_helpers import Clock, play_rounds, small_loop


def test_a_sound_log_is_said_to_be_sound(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 40)
    store.close()
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "events.sqlite"), "--verify"])
    assert result.exit_code == 0
    assert (
        "default: 40 decisions; rewards: accepted 40, duplicate 0, late 0, out of range 0, unknown 0" in result.output
    )
    assert "40 decisions made again with 3 models, 40 learned again: all the same" in result.output


def test_a_log_that_was_changed_is_found_out(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    decision = play_rounds(loop, store, clock, 10)[0]
    store.append_blocking([msgspec.structs.replace(decision, event_id="forged", seed=1)])
    store.close()
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "events.sqlite")])
    assert result.exit_code == 1
    assert "1 differ" in result.output
    assert "(forged): the seed is" in result.output


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "none")])
    assert isinstance(result.exception, InvalidInput)
    assert "there is no store" in str(result.exception)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("more", [[], ["--loop", "other"]])
def test_a_summary_makes_nothing_again(tmp_path: Path, more: list[str]) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 5)
    store.close()
    result = CliRunner().invoke(app, ["replay", str(tmp_path / "events.sqlite"), "--summary", *more])
    assert result.exit_code == 0
    assert (
        "5 decisions"
        if not more
        else "other: 0 decisions; rewards: accepted 0, duplicate 0, late 0, out of range 0, unknown 0"
    ) in result.output
