"""A ranker whose PostgreSQL database stops or dies, and comes back."""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from glbandits.service.storage.open_store import open_store
from tests.service.helpers import wait_until
from tests.service.http.servers.rankers import Ranker, rankers
from tests.service.http.servers.server_process import ACTIONS, Reply
from tests.service.storage.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.system

log = logging.getLogger(__name__)

RECOVERY = 60.0
"""Seconds within which everything works again after the database has started: 1 to 3 s on an idle machine."""
ARMS = [[1.0] * 256, [0.0] * 256]


def rank(ranker: Ranker, event_id: str) -> Any:
    reply = ranker.server.ask("POST", "/personalizer/v1.0/rank", {"eventId": event_id, "actions": ACTIONS})
    assert reply.status == 201, reply
    return reply.json


def decide(ranker: Ranker, event_id: str) -> Any:
    reply = ranker.server.ask("POST", "/v1/decide", {"eventId": event_id, "arms": ARMS})
    assert reply.status == 200, reply
    return reply.json


def rewards(ranker: Ranker, event_id: str) -> list[Reply]:
    """Responses to a reward through each API."""
    return [
        ranker.server.ask("POST", f"/personalizer/v1.0/events/{event_id}/reward", {"value": 0.5}),
        ranker.server.ask("POST", "/v1/reward", {"eventId": event_id, "value": 0.5, "key": "sale"}),
    ]


def log_lines(ranker: Ranker) -> list[str]:
    return (ranker.folder / "stderr").read_text().splitlines()


@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill])
def test_decisions_continue_during_an_outage(
    postgres: PostgresServer, tmp_path: Path, end: Callable[[PostgresServer], None]
) -> None:
    address = postgres.new_address(connect_timeout=3)
    with rankers(tmp_path, address, ["127.0.0.1"]) as (ranker,):
        answers = {"before": rank(ranker, "before")}
        end(postgres)
        for number in range(10):
            answers[f"away-{number}"] = rank(ranker, f"away-{number}")
            assert answers[f"away-{number}"]["degraded"]
        assert decide(ranker, "native")["degraded"]
        for refused in rewards(ranker, "before"):
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert ranker.server.ask("GET", "/readyz").status == 503
        assert ranker.server.ask("GET", "/livez").status == 200
        postgres.start()
        began = time.monotonic()
        wait_until(lambda: ranker.server.ask("GET", "/readyz").status == 200)
        log.info("recovered after %.2f s", seconds := time.monotonic() - began)
        assert seconds < RECOVERY
        answers["after"] = rank(ranker, "after")
        assert "degraded" not in answers["after"]
        for name in ("before", "away-0", "after"):
            assert [reply.status for reply in rewards(ranker, name)] == [204, 200]
        ranker.stop()
    assert [line for line in log_lines(ranker) if "ERROR" in line or "Traceback" in line or "connecting" in line] == [
        line for line in log_lines(ranker) if " failed and will be retried: " in line
    ]
    with closing(open_store(address, durability="process")) as store:
        logged = {each.decision.event_id: each for each in store.search("default", "", 100)}
    assert set(logged) == {*answers, "native"}
    for name, answer in answers.items():
        decision = logged[name].decision
        assert answer["rewardActionId"] == decision.actions[decision.shown]
    assert {name: len(each.rewards) for name, each in logged.items() if each.rewards} == {
        "before": 2,
        "away-0": 2,
        "after": 2,
    }
