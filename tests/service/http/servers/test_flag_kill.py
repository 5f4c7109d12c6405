"""A server is killed during evaluations and rewards: nothing acknowledged is lost, and answers stay the same."""

import http.client
import itertools
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.open_store import open_store
from tests.service.http.servers.server_process import Running, ask, running

pytestmark = pytest.mark.system
KILLS, CLIENTS, LIFE = 3, 3, 1.5
"""Kills; clients at a time; seconds from a start to its kill."""
VARIANTS = {"red": {"value": "#f00"}, "green": {"value": "#0f0"}, "blue": {"value": "#00f"}}
SETTINGS = {"variants": VARIANTS, "rewardWait": "1h", "exploration": 1.0}
FAILURES = (OSError, http.client.HTTPException)


class Acknowledged:
    """What the server has acknowledged: the answer for each unit, and the units with a reward."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.answers: dict[str, Any] = {}
        self.wrong: list[str] = []
        self.rewarded: dict[str, str] = {}

    def play(self, server: Running, name: str) -> None:
        """Evaluate and reward, for ever new users, until the server dies."""
        with closing(server.connect()) as connection, suppress(*FAILURES):
            for number in itertools.count():
                unit = f"{name}-{number}"
                self.answers[unit] = answer = evaluated(connection, self.key, unit, bulk=number % 3 == 0)
                if evaluated(connection, self.key, unit) != answer:
                    self.wrong.append(unit)
                body = {"flag": "colour", "targetingKey": unit, "value": 1.0, "key": "click"}
                sent = ask(connection, "POST", "/v1/reward", body, self.key)
                assert sent.json["status"] == "accepted"
                self.rewarded[unit] = sent.json["eventId"]


def evaluated(connection: http.client.HTTPConnection, key: str, unit: str, *, bulk: bool = False) -> Any:
    path = "/ofrep/v1/evaluate/flags" + ("" if bulk else "/colour")
    reply = ask(connection, "POST", path, {"context": {"targetingKey": unit}}, key)
    assert reply.status == 200, reply.body
    return reply.json["flags"][0] if bulk else reply.json


def test_nothing_is_lost_and_answers_stay(tmp_path: Path, new_address: Callable[[], str]) -> None:
    address, acknowledged, degraded = new_address(), None, 0
    for kill in range(KILLS + 1):
        with running(tmp_path, "--loops", "colour", store=address) as server:
            if acknowledged is None:
                acknowledged = Acknowledged(str(server.key))
                assert server.ask("PATCH", "/loops/colour/v1/configuration", SETTINGS).status == 200
            with closing(server.connect()) as connection:
                for unit, answer in acknowledged.answers.items():
                    if answer["reason"] == "STALE":
                        degraded += 1
                    elif evaluated(connection, acknowledged.key, unit) != answer:
                        acknowledged.wrong.append(unit)
            if kill < KILLS:
                names = [f"{kill}-{client}" for client in range(CLIENTS)]
                clients = [threading.Thread(target=acknowledged.play, args=(server, name)) for name in names]
                for client in clients:
                    client.start()
                time.sleep(LIFE)
                server.signal(signal.SIGKILL)
                for client in clients:
                    client.join()
            else:
                server.signal()
                assert server.wait() == 0
    assert acknowledged is not None
    assert acknowledged.wrong == []
    assert len(acknowledged.rewarded) > 10 * KILLS
    with closing(open_store(address, durability="process")) as store:
        assert verify(store, "colour").sound
        for unit, event_id in acknowledged.rewarded.items():
            (logged,) = store.decisions_of("colour", event_id)
            assert [reward.value for reward in logged.rewards] == [1.0], unit
            assert not logged.decision.deferred or logged.activated_at is not None
    assert degraded < len(acknowledged.answers) / 10
