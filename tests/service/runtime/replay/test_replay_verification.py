"""What `verify` finds out, and what it makes of a log that changes while it looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from glbandits.service.domain.events import Mode
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.runtime.loops.loop_helpers import Clock, ask, play_rounds, small_loop

pytestmark = pytest.mark.usefixtures("plain_python")


@contextmanager
def meanwhile(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore, read: str, call: int, happens: Callable[[], object]
) -> Iterator[None]:
    """Let something happen before a certain call of a method of the store."""
    method, calls = getattr(store, read), count(1)

    def interrupted(*args: Any, **settings: Any) -> Any:
        if next(calls) == call:
            happens()
        return method(*args, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(store, read, interrupted)
        yield
    assert next(calls) > call  # it did happen


@pytest.mark.parametrize(("shown", "sound"), [(2, True), (1, False)])
def test_a_wrong_shown_action_is_detected(tmp_path: Path, shown: int, sound: bool) -> None:
    loop, store = small_loop(tmp_path, Clock(), mode=Mode.APPRENTICE)
    made = ask(loop, "e", "noon", slot="top", baseline=2)
    assert (made.shown, made.baseline) == (2, 2)
    store.append_blocking([replace(made, shown=shown)])
    assert verify(store, "default").sound == sound
    store.close()


@pytest.fixture(name="small_batches")
def small_batches_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.service.runtime.replay.relearning.BATCH", 10)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("read", "call"),
    [
        ("latest_model", 1),
        ("last_sequence", 1),
        *(("documents", n) for n in range(1, 7)),
        *(("settled", n) for n in range(1, 7)),
    ],
)
def test_a_new_epoch_during_verification_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str, call: int
) -> None:
    """Before any look at the store another process resets the model, decides with another one, and learns."""
    loop, store = small_loop(tmp_path, clock := Clock(), width=8)
    play_rounds(loop, store, clock, 40)

    def start_new_epoch() -> None:
        loop.configure(loop.configuration, reset_model=True)
        play_rounds(loop, store, clock, 20, first=1000)

    with meanwhile(monkeypatch, store, read, call, start_new_epoch):
        result = verify(store, "default")
    assert (result.sound, result.unchecked) == (True, 0)
    assert result.decisions in (40, 60)
    store.close()


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("call", range(1, 12))
@pytest.mark.parametrize("all_of_it", [False, True])
def test_decisions_deleted_meanwhile_are_no_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_of_it: bool, call: int
) -> None:
    loop, store = small_loop(tmp_path, clock := Clock(), width=8)
    before = play_rounds(loop, store, clock, 60)[30].timestamp
    with meanwhile(monkeypatch, store, "settled", call, lambda: loop.delete_log(clock() if all_of_it else before)):
        result = verify(store, "default")
    assert (result.sound, result.messages) == (True, ())
    assert result.decisions + result.unchecked <= 60
    store.close()


def test_differences_before_a_deletion_are_reported(tmp_path: Path, small_batches: None) -> None:  # noqa: ARG001
    loop, store = small_loop(tmp_path, clock := Clock())
    store.append_blocking([replace(ask(loop, "forged", "noon"), seed=1)])
    before = play_rounds(loop, store, clock, 60)[30].timestamp

    def forget(_: int) -> None:
        loop.delete_log(before)

    result = verify(store, "default", forget)
    assert (result.different, result.decisions, result.unchecked) == (1, 10, 40)
    assert result.messages[0].startswith("decision ")
    store.close()
