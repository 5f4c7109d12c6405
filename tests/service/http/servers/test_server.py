"""A real server in a process of its own: how it starts, what it keeps, and how it stops."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from glbandits.cli.commands import serve
from glbandits.service.http.server import raise_file_limit
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.cli.in_process import glb
from tests.service.http.servers.server_process import ACTIONS, GLB, Running, ask, eventually, running

pytestmark = pytest.mark.system


def rank(event: str) -> dict[str, Any]:
    return {"eventId": event, "contextFeatures": [{"hour": "morning"}], "actions": ACTIONS}


class Caller(threading.Thread):
    """Decides and rewards until the server is gone, and remembers what was acknowledged."""

    def __init__(self, server: Running, name: str) -> None:
        super().__init__(name=name)
        self._server = server
        self.decided: list[str] = []
        self.rewarded: list[str] = []
        self.others: list[int] = []

    def run(self) -> None:
        number = 0
        connection = self._server.connect()
        try:
            while True:
                event = f"{self.name}-{number}"
                number += 1
                if self._kept(connection, "/personalizer/v1.0/rank", rank(event)):
                    self.decided.append(event)
                    if self._kept(connection, f"/personalizer/v1.0/events/{event}/reward", {"value": 1.0}):
                        self.rewarded.append(event)
        except OSError:
            pass  # the server is gone
        finally:
            connection.close()

    def _kept(self, connection: Any, path: str, body: Any) -> bool:
        reply = ask(connection, "POST", path, body, self._server.key)
        if reply.status not in (201, 204):
            self.others.append(reply.status)
        return reply.status in (201, 204)


def lost(store: Path, callers: list[Caller]) -> list[str]:
    """What was acknowledged and is not in the log."""
    kept = SqliteStore(store)
    try:
        logged = {name: kept.decision("default", name) for caller in callers for name in caller.decided}
    finally:
        kept.close()
    decisions = [name for name, found in logged.items() if found is None]
    rewards = [
        name
        for caller in callers
        for name in caller.rewarded
        if (found := logged[name]) is None or len(found.rewards) != 1
    ]
    return decisions + rewards


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_stop_loses_no_acknowledged_event(tmp_path: Path, durability: str) -> None:
    with running(tmp_path, durability=durability) as server:
        callers = [Caller(server, f"caller{n}") for n in range(6)]
        for caller in callers:
            caller.start()
        assert eventually(lambda: sum(len(caller.rewarded) for caller in callers) > 50)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        for caller in callers:
            caller.join()
    assert [status for caller in callers for status in caller.others if status != 503] == []
    assert lost(tmp_path / "store.db", callers) == []
    assert "Traceback" not in server.errors.read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that the tests below share."""
    folder = tmp_path_factory.mktemp("site")
    with running(folder, "--log-level", "debug", log_format="json", max_body="2000") as server:
        yield server
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_a_loop_can_become_sparse_and_dense_again(site: Running) -> None:
    for width, sparse in ((2**24, True), (256, False)):
        assert site.ask("PATCH", "/v1/configuration", {"width": width}).status == 200
        assert site.ask("POST", "/personalizer/v1.0/rank", rank(f"wide {width}")).status == 201
        status = site.ask("GET", "/v1/status").json
        assert (status["width"], status["sparse"]) == (width, sparse)


def test_json_log_has_request_ids_and_no_keys(site: Running) -> None:
    site.ask("POST", "/personalizer/v1.0/rank", rank("logged"), x_request_id="find-me")
    assert eventually(lambda: "find-me" in site.errors.read_text())  # the response comes before the line
    text = site.errors.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    (line,) = (line for line in lines if line.get("request") == "find-me")
    assert line["message"].startswith("POST /personalizer/v1.0/rank: 201 in ")
    assert site.key is not None
    assert site.key not in text
    assert "morning" not in text


def test_a_stopping_server_drains_until_the_next_signal(tmp_path: Path) -> None:
    with running(tmp_path, shutdown_delay="300") as server:
        assert server.ask("GET", "/readyz").status == 200
        server.signal(signal.SIGTERM)
        assert eventually(lambda: server.ask("GET", "/readyz").status == 503)
        assert server.ask("GET", "/readyz").json["reasons"] == ["the server is stopping"]
        assert server.ask("POST", "/personalizer/v1.0/rank", rank("last")).status == 201
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert store.decision("default", "last") is not None


def test_a_stop_with_lost_decisions_fails(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        (tmp_path / "store.db").rename(tmp_path / "elsewhere.db")
        replies = [server.ask("POST", "/personalizer/v1.0/rank", rank(f"lost {i}")) for i in range(3)]
        assert [reply.json["degraded"] for reply in replies] == [True] * 3
        server.signal(signal.SIGTERM)
        assert server.wait() == 1
        assert server.process.stdout is not None
        assert "All events and models are stored" not in server.process.stdout.read()
    counts = re.findall(r"(\d+) decisions are lost", server.errors.read_text())
    assert sum(map(int, counts)) == 3


def test_key_is_printed_at_the_first_start_only(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        key = first.key
        assert key is not None
    with running(tmp_path) as second:
        assert second.key is None
        assert '"$GLB_KEY"' in second.printed
        waiting = "Rewards are accepted for 10 min, then learned. For a trial: glb serve --reward-window 5s"
        assert waiting in second.printed
        assert second.ask("GET", "/v1/loops", key=key).status == 200


def test_a_used_port_is_one_error_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = subprocess.run(
            [*GLB, "serve", "--port", str(port)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
    assert run.returncode == 2
    assert f"port {port} of 127.0.0.1 is in use" in run.stderr
    assert "set another --port" in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "advice"),
    [("no.such.host.invalid", "set --host"), ("192.0.2.1", "set --host to an address of this machine")],
)
def test_bad_host_has_its_own_message(tmp_path: Path, host: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "set_up_logging", lambda _settings: None)
    run = glb("serve", "--host", host, folder=tmp_path)
    assert run.returncode == 2
    assert f"cannot listen on {host}:8711" in run.stderr
    assert advice in run.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_refused_file_limit_bounds_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where the hard limit may be infinite and the soft limit not."""
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", Mock(side_effect=ValueError("current limit exceeds maximum limit")))
    assert raise_file_limit(100) == 100
    assert raise_file_limit(1000) == 192
