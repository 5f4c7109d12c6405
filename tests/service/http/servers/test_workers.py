"""A real server of several processes."""

import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.http.servers.server_process import GLB, Running, eventually, running
from tests.service.http.servers.test_server import Caller, lost, rank

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="one process alone can serve a store here"),
]
MODEL = "glb_model_number"
PROCESSES = 2


def figures(server: Running, name: str) -> dict[str, float]:
    """A figure of each process, as far as they have answered in so many requests."""
    found = dict[str, float]()
    for _ in range(60):
        lines = server.ask("GET", "/metrics").body.decode().splitlines()
        line = next(line for line in lines if line.startswith(name + "{"))
        process = line.split('process="')[1].split('"')[0]
        found[process] = float(line.split()[-1])
    return found


def wait_shortly(server: Running) -> None:
    """Rewards are waited for, and models made, ten times a second, by all processes.

    A decision that is made before its process knows would wait for ten minutes, and those after it with it.
    """
    changed = {"rewardWait": 0.1, "modelUpdate": 0.1}
    assert server.ask("PATCH", "/v1/configuration", changed).status == 200
    assert eventually(lambda: waits(server) == {0.1})


def waits(server: Running) -> set[float]:
    """What the processes say, as far as they have answered in so many requests."""
    return {server.ask("GET", "/v1/configuration").json["rewardWait"] for _ in range(60)}


def test_workers_share_the_log_and_the_model(tmp_path: Path) -> None:
    with running(tmp_path, processes="2") as server:
        wait_shortly(server)
        callers = [Caller(server, f"caller{n}") for n in range(6)]
        for caller in callers:
            caller.start()
        assert eventually(lambda: sum(len(caller.rewarded) for caller in callers) > 50)
        assert eventually(lambda: len(figures(server, MODEL)) == PROCESSES)
        assert eventually(lambda: min(figures(server, MODEL).values()) > 0)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        for caller in callers:
            caller.join()
    assert lost(tmp_path / "store.db", callers) == []
    store = SqliteStore(tmp_path / "store.db")
    result = verify(store, "default")
    store.close()
    assert result.sound, result.messages
    assert result.models > 2


def test_a_killed_learner_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path, processes="2") as server:
        wait_shortly(server)
        lock = tmp_path / "store.db.learner"
        assert eventually(lambda: lock.read_text() != "")
        killed = int(lock.read_text())
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda: lock.read_text() not in ("", f"{killed}\n"))
        assert eventually(lambda: len(figures(server, MODEL)) == PROCESSES)
        before = max(figures(server, MODEL).values())
        assert server.ask("POST", "/personalizer/v1.0/rank", rank("after")).status == 201
        assert eventually(lambda: min(figures(server, MODEL).values()) > before)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert "died" in server.errors.read_text()


def test_a_paused_learner_is_replaced_and_cannot_write(tmp_path: Path) -> None:
    with running(tmp_path, processes="2") as server:
        wait_shortly(server)
        lock = tmp_path / "store.db.learner"
        assert eventually(lambda: lock.read_text() != "")
        paused = int(lock.read_text())
        os.kill(paused, signal.SIGSTOP)
        with closing(SqliteStore(tmp_path / "store.db")) as store:
            term, _ = store.read_lease()
            assert eventually(lambda: store.read_lease()[0] == term + 1)
            os.kill(paused, signal.SIGCONT)
            assert eventually(lambda: lock.read_text() not in ("", f"{paused}\n"))
            assert server.ask("POST", "/personalizer/v1.0/rank", rank("after")).status == 201
            assert eventually(lambda: (saved := store.latest_model("default")) is not None and saved.sequence > 0)
            assert store.read_lease()[0] == term + 1
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_workers_stop_when_the_supervisor_dies(tmp_path: Path) -> None:
    with running(tmp_path, processes="2") as server:
        server.signal(signal.SIGKILL)
        server.wait()

        def gone() -> bool:
            try:
                server.ask("GET", "/livez")
            except OSError:
                return True
            return False

        assert eventually(gone)


def test_a_signal_to_all_processes_stops_in_order(tmp_path: Path) -> None:
    """A service manager signals all processes, and the parent passes on its own: each of the others gets two."""
    with running(tmp_path, processes="2", shutdown_delay="4") as server:
        children = subprocess.check_output(["pgrep", "-P", str(server.process.pid), "-f", "spawn_main"], text=True)
        server.signal(signal.SIGTERM)
        time.sleep(0.7)
        for child in children.split():
            os.kill(int(child), signal.SIGTERM)
        assert server.ask("POST", "/personalizer/v1.0/rank", rank("last")).status == 201
        assert server.wait() == 0
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert store.decision("default", "last") is not None
        assert store.check() == []


def test_no_resource_leaks_are_reported(tmp_path: Path) -> None:
    with running(tmp_path, processes="2") as server:
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    assert "leaked" not in server.errors.read_text()
    assert "Traceback" not in server.errors.read_text()


WORKERS_WITHOUT_STORE = """
import os, sys
if "--multiprocessing-fork" in sys.argv:
    os.environ["GLB_SERVE_STORE"] = "missing/store.db"
"""


def test_workers_that_cannot_start_end_the_server_at_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WORKERS_WITHOUT_STORE)
    words = [*GLB, "serve", "--port", "0", "--store", str(tmp_path / "store.db")]
    variables = {"PYTHONPATH": str(tmp_path), "GLBANDITS_COMPILE": "never", "GLB_SERVE_PROCESSES": "2"}
    began, environment = time.monotonic(), os.environ | variables
    ended = subprocess.run(
        words, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False, env=environment
    )
    assert time.monotonic() - began < 40  # a start takes a few seconds on a busy machine
    assert ended.returncode == 2, ended.stderr
    assert "missing/store.db" in ended.stderr
    assert "a worker process did not start" in ended.stderr
    assert "Traceback" not in ended.stderr
