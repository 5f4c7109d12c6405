"""A real server: arms come and go while two threads decide, then it is killed and started again."""

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from glbandits.service.client import Client, ServiceError
from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.open_store import open_store
from tests.service.helpers import wait_until
from tests.service.http.servers.server_process import Running, running

pytestmark = pytest.mark.system

DIM, FIRST, CHANGES = 8, 2000, 15
FLAGS = ("--processes", "2", "--reward-window", "1s")


def features(count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(size=(count, DIM))


def client_of(server: Running, key: str) -> Client:
    return Client(server.address, key, timeout=60.0, tries=1)


def decide_until(server: Running, key: str, stop: Event) -> list[tuple[str, str]]:
    """Decide and reward; return the acknowledged decisions: event ids and arms."""
    made: list[tuple[str, str]] = []
    with client_of(server, key) as client:
        while not stop.is_set():
            try:
                decided = client.decide_from_catalogue(baseline="fixed 0")
                client.reward(decided.event_id, 1.0)
            except ServiceError as error:
                if error.status == 0:  # it was killed
                    break
                if error.status != 400 or made:  # the configuration comes a moment later
                    raise
                continue
            if not decided.degraded:
                made.append((decided.event_id, decided.id))
    return made


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    stop = Event()
    with running(tmp_path, *FLAGS) as server, ThreadPoolExecutor(2) as pool:
        key = server.key
        assert key is not None
        assert server.ask("PATCH", "/v1/configuration", {"width": DIM}).status == 200
        with client_of(server, key) as client:
            wait_until(lambda: client.status().width == DIM)
            client.put_arms([f"fixed {index}" for index in range(FIRST)], features(FIRST, seed=0))
            wait_until(lambda: client.catalogue().arms == FIRST)
            deciding = [pool.submit(decide_until, server, key, stop) for _ in range(2)]
            for change in range(CHANGES):
                client.put_arms([f"new {change}"], features(1, seed=change + 1))
                version = client.change_arms(retire=[f"fixed {change + 1}"]).version
        server.signal(signal.SIGKILL)
        made = [decision for future in deciding for decision in future.result()]
    with running(tmp_path, *FLAGS) as server:
        with client_of(server, key) as client:
            status = client.catalogue()
            assert (status.version, status.arms) == (version, FIRST)
            ids = {arm.id for arm in client.arms()}
            assert ids == {f"fixed {i}" for i in (0, *range(CHANGES + 1, FIRST))} | {f"new {i}" for i in range(CHANGES)}
            assert client.decide_from_catalogue(only=["new 0"]).id == "new 0"
        server.signal()
        server.wait()
    with closing(open_store(str(tmp_path / "store.db"), durability="process")) as store:
        for event_id, arm in made:
            logged = store.decision("default", event_id)
            assert logged is not None
            assert logged.decision.actions[logged.decision.shown] == arm
        result = verify(store, "default")
    assert made
    assert (result.different, result.unchecked) == (0, 0), result.messages
