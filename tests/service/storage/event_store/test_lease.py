"""The learner's lease, in stores of every kind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from glbandits.service.domain.errors import LeaseLost, StoreError
from glbandits.service.storage.event_store import EventStore
from glbandits.service.storage.learner_lease import EXPIRY_SECONDS, LearnerLease
from tests.service.helpers import WAIT, decision, wait_until


@pytest.fixture(name="other")
def other_fixture(opened: Callable[[], EventStore], store: EventStore) -> Iterator[EventStore]:
    """The same store, as another process has it. It is opened after `store`."""
    assert store.check() == []
    with closing(opened()) as other:
        yield other


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="watch")
def watch_fixture(store: EventStore, other: EventStore) -> Watch:
    """Sets the clock of two stores."""
    watch = Watch()
    for own in (store, other):
        own.lease = LearnerLease(own, watch)
    return watch


def test_one_process_holds_the_lease_until_it_closes(store: EventStore, other: EventStore) -> None:
    kept = [own.lease.keep() for own in (store, other, store, other)]
    assert kept == [True, False, True, False]
    store.lease.close()
    wait_until(other.lease.keep)
    assert not store.lease.keep()


def test_a_learner_that_beats_keeps_the_lease(store: EventStore, other: EventStore, watch: Watch) -> None:
    assert store.lease.keep()
    for _ in range(30):
        watch.now += 1.0
        assert store.lease.keep()
        assert not other.lease.keep()


def test_a_paused_learner_loses_the_lease_and_cannot_write(store: EventStore, other: EventStore, watch: Watch) -> None:
    store.append_blocking([decision("a"), decision("b")])
    assert store.lease.keep()
    assert store.seal("shop", 0, WAIT + 1, 1) == 1
    assert not other.lease.keep()
    watch.now += EXPIRY_SECONDS + 0.1
    assert other.lease.keep()
    other.save_model("shop", 9, 1, b"newer")
    for write in (lambda: store.save_model("shop", 1, 1, b"old"), lambda: store.seal("shop", 0, WAIT + 1, 2)):
        with pytest.raises(LeaseLost):
            write()
    saved = other.latest_model("shop")
    assert saved is not None
    assert saved.body == b"newer"
    assert [store.lease.keep(), other.lease.keep(), store.lease.keep()] == [False, True, False]
    assert other.seal("shop", 0, WAIT + 1, 2) == 2


def test_an_outage_of_the_store_does_not_move_the_lease(
    store: EventStore, other: EventStore, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> tuple[int, int]:
        raise StoreError("away")

    assert store.lease.keep()
    assert not other.lease.keep()
    with monkeypatch.context() as patch:
        patch.setattr(other, "read_lease", fail)
        watch.now += 10 * EXPIRY_SECONDS
        with pytest.raises(StoreError):
            other.lease.keep()
    assert not other.lease.keep()
    assert store.lease.keep()


KEEP = """
import sys, time
from glbandits.service.storage.open_store import open_store
lease = open_store(sys.argv[1], durability="process").lease
assert lease.keep()
print("held", flush=True)
while True:
    time.sleep(0.2)
    print(lease.keep(), flush=True)
"""


@pytest.fixture(name="learner")
def learner_fixture(address: str) -> "Iterator[subprocess.Popen[str]]":
    """Another process that learns."""
    with subprocess.Popen([sys.executable, "-c", KEEP, address], stdout=subprocess.PIPE, text=True) as learner:
        assert learner.stdout is not None
        assert learner.stdout.readline() == "held\n"
        yield learner
        learner.kill()


def seconds_until_taken(store: EventStore) -> float:
    began = time.monotonic()
    while not store.lease.keep():
        time.sleep(0.05)
    return time.monotonic() - began


def test_a_killed_learner_is_replaced_soon(store: EventStore, learner: "subprocess.Popen[str]") -> None:
    assert not store.lease.keep()
    learner.kill()
    assert seconds_until_taken(store) < 2 * EXPIRY_SECONDS


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSTOP")
def test_a_stopped_process_is_replaced(store: EventStore, learner: "subprocess.Popen[str]") -> None:
    assert not store.lease.keep()
    os.kill(learner.pid, signal.SIGSTOP)
    assert EXPIRY_SECONDS / 2 < seconds_until_taken(store) < 4 * EXPIRY_SECONDS
    os.kill(learner.pid, signal.SIGCONT)
    assert learner.stdout is not None
    wait_until(lambda: learner.stdout is not None and learner.stdout.readline() == "False\n")
    assert store.lease.keep()
