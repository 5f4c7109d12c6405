"""A server whose settings are changed learns its log again, also if it is killed in the middle."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import glb
from tests.service.http.servers.server_process import Running, eventually, running

pytestmark = pytest.mark.system

ARMS = [[1.0, 0.0], [0.0, 1.0]]
FLAGS = ("--reward-window", "3s")
HALF_LIFE = {"settings": {"link": "identity", "half_life": 5000}}


def status(server: Running) -> Any:
    return server.ask("GET", "/v1/status").json


def epoch(server: Running) -> int:
    return int(status(server)["modelVersion"].partition(".")[0])


def probability(server: Running) -> float:
    """The probability of the first arm, which is the better one."""
    reply = server.ask("POST", "/v1/decide", {"arms": ARMS})
    assert reply.status == 200, reply.body
    return float(reply.json["probabilities"][0])


def learn(server: Running, batches: int) -> None:
    for batch in range(batches):
        names = [f"{batch}-{number}" for number in range(250)]
        decided = server.ask("POST", "/v1/batch", {"decide": [{"eventId": name, "arms": ARMS} for name in names]})
        arms = [item["decided"]["arm"] for item in decided.json["decide"]]
        rewards = [{"eventId": name, "value": 1.0 - arm} for name, arm in zip(names, arms, strict=True)]
        assert server.ask("POST", "/v1/batch", {"reward": rewards}).status == 200
    last = server.ask("GET", "/v1/events?limit=1").json["events"][0]["number"]
    assert eventually(lambda: status(server)["learnedTo"] >= last)


def test_probabilities_never_become_uniform(tmp_path: Path, new_address: Callable[[], str]) -> None:
    address = new_address()
    with running(tmp_path, *FLAGS, store=address) as server:
        key = server.key
        assert server.ask("PATCH", "/v1/configuration", {"width": 2, "modelUpdate": 0.2}).status == 200
        decide = partial(server.ask, "POST", "/v1/decide", {"arms": ARMS})
        assert eventually(lambda: decide().status == 200)
        learn(server, 12)
        assert eventually(lambda: probability(server) > 0.8)
        before = epoch(server)
        reply = server.ask("PATCH", "/v1/configuration", HALF_LIFE)
        assert reply.status == 200, reply.body
        assert reply.json["relearning"]["of"] > 3000
        assert "learns the log under the changed settings" in reply.json["relearning"]["sentence"]
        server.signal(9)
        server.wait()
    with running(tmp_path, *FLAGS, store=address) as server:
        server.key = key
        during = [probability(server)]
        end = time.monotonic() + 100
        while (found := status(server))["relearning"] and time.monotonic() < end:
            during.append(probability(server))
        assert found["relearning"] is None
        after = [probability(server) for _ in range(20)]
        assert min(during + after) > 0.8
        assert eventually(lambda: epoch(server) == before + 1)
        assert server.ask("GET", "/v1/configuration").json["settings"]["half_life"] == 5000
        server.signal()
        assert server.wait() == 0
    errors = (tmp_path / "stderr").read_text()
    assert "Loop default learns its log again" in errors
    assert "Loop default has learned its log again" in errors
    assert "Traceback" not in errors
    run = glb("store", "verify", "--store", address, folder=tmp_path)
    assert run.returncode == 0, run.stdout
    assert "no difference" in run.stdout


def test_relearn_command_works_beside_a_server(tmp_path: Path, new_address: Callable[[], str]) -> None:
    address = new_address()
    with running(tmp_path, *FLAGS, store=address) as server:
        assert server.ask("PATCH", "/v1/configuration", {"width": 2, "modelUpdate": 0.2}).status == 200
        learn(server, 2)
        before = epoch(server)
        run = glb("store", "relearn", "--store", address, folder=tmp_path)
        assert run.returncode == 0, run.stderr
        assert "Learned the log up to decision" in run.stdout
        assert eventually(lambda: epoch(server) == before + 1)
        assert probability(server) > 0.8
        server.signal()
        assert server.wait() == 0
    assert glb("store", "verify", "--store", address, folder=tmp_path).returncode == 0
