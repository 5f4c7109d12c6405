"""A server whose store has models that cannot be loaded starts, serves and says so in one sentence."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from glbandits.bandit import Bandit
from glbandits.service.storage.open_store import open_store
from tests.service.http.servers.server_process import ACTIONS, Running, eventually, running
from tests.service.runtime.loops.damaged_models import damage_all_models, damage_base, damage_model, invalid, truncated

pytestmark = pytest.mark.system


def learn_some(server: Running, prefix: str, rounds: int = 6) -> None:
    """Make decisions and wait until each is learned, so that the store has several models."""
    rank = "/personalizer/v1.0/rank"

    def has_learned(after: int) -> bool:
        return bool(server.ask("GET", "/v1/status").json["learnedTo"] > after)

    for number in range(rounds):
        before = server.ask("GET", "/v1/status").json["learnedTo"]
        event = f"{prefix}-{number}"
        assert server.ask("POST", rank, {"eventId": event, "actions": ACTIONS}).status == 201
        assert server.ask("POST", f"/personalizer/v1.0/events/{event}/reward", {"value": 1}).status == 204
        assert eventually(partial(has_learned, before))


@pytest.mark.parametrize("is_total", [False, True])
def test_server_starts_with_damaged_models(tmp_path: Path, new_address: Callable[[], str], is_total: bool) -> None:
    address = new_address()
    options = ("--reward-window", "0.2s", "--loops", "default,shop")
    with running(tmp_path, *options, store=address) as server:
        key = server.key
        assert server.ask("PATCH", "/v1/configuration", {"modelUpdate": 0.1}).status == 200
        learn_some(server, "first")
        learned = server.ask("GET", "/v1/status").json["learnedTo"]
        server.signal()
        assert server.wait() == 0
    with closing(open_store(address, durability="process")) as store:
        number = damage_model(store, invalid)
        if is_total:
            damage_all_models(store)
            damage_base(store, truncated)
    (tmp_path / "stderr").write_text("")
    with running(tmp_path, *options, store=address) as server:
        server.key = key
        assert server.ask("GET", "/readyz").status == 200
        assert Bandit.from_bytes(server.ask("GET", "/v1/model").body).is_valid()
        learn_some(server, "second")
        assert server.ask("GET", "/v1/status").json["learnedTo"] > learned
        assert server.ask("POST", "/loops/shop/personalizer/v1.0/rank", {"actions": ACTIONS}).status == 201
        assert eventually(lambda: server.ask("GET", "/readyz").json == {"status": "ready"})
        time.sleep(0.2)
        assert Bandit.from_bytes(server.ask("GET", "/v1/model").body).is_valid()
        server.signal()
        assert server.wait() == 0
    errors = (tmp_path / "stderr").read_text()
    assert "Traceback" not in errors
    assert errors.count(f"Loop default: saved model {number} cannot be loaded") == 1
