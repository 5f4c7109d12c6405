from pathlib import Path

from glbandits.service.domain.events import EventStatus
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.runtime.loops.loop_helpers import Clock, play_rounds, small_loop


def test_store_moves_to_another_file(tmp_path: Path) -> None:
    loop, store = small_loop(tmp_path, clock := Clock())
    play_rounds(loop, store, clock, 5)
    store.close()
    run = glb("store", "move", "new.sqlite", "--store", "events.sqlite", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "decisions: 5 rows" in run.stdout
    assert SqliteStore(tmp_path / "new.sqlite").summary("default").decisions[EventStatus.ACCEPTED] == 5


def test_store_cannot_move_to_its_own_address(tmp_path: Path) -> None:
    small_loop(tmp_path, Clock())[1].close()
    run = glb("store", "move", "events.sqlite", "--store", "events.sqlite", folder=tmp_path)
    assert run.returncode == 2
    assert run.stderr == "glb: the store moves to another address; got events.sqlite for both\nOption: --store\n"
