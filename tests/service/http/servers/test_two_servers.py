"""Two real servers on one store."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.open_store import open_existing_store
from tests.service.http.servers.server_process import Running, eventually, running

ARMS = [[1.0, 0.0], [0.0, 1.0]]
LOOP = {"configuration": {"width": 2, "control": {"share": 0.5}}}
USERS = 8


def decide(server: Running, loop: str, first: str, key: str, user: int = 0) -> int:
    """Decide for a user, and return the status."""
    body = {"eventId": f"{first}-{user}", "unit": f"user-{user}", "arms": ARMS}
    return server.ask("POST", f"/loops/{loop}/v1/decide", body, key).status


def test_two_servers_agree_on_loops(tmp_path: Path, new_address: Callable[[], str]) -> None:
    address = new_address()
    with running(tmp_path, store=address) as one, running(tmp_path, store=address) as other:
        key = one.key
        assert key is not None
        names = [f"loop-{number}" for number in range(4)]
        for name in names:

            def create(server: Running, name: str = name) -> int:
                return server.ask("POST", "/v1/loops", {"name": name} | LOOP, key).status

            with ThreadPoolExecutor(2) as pool:
                assert sorted(pool.map(create, (one, other))) == [201, 409]
        other.signal(signal.SIGSTOP)
        assert one.ask("DELETE", "/v1/loops/loop-0", key=key).status == 204
        assert one.ask("POST", "/v1/loops", {"name": "loop-0"} | LOOP, key).status == 201
        other.signal(signal.SIGCONT)
        assert eventually(lambda: decide(other, "loop-0", "awake", key) == 200)
        for name in names:
            for user in range(USERS):
                statuses = [decide(server, name, f"{server.address}", key, user) for server in (one, other)]
                assert statuses == [200, 200]
        for server in (one, other):
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
    with closing(open_existing_store(address)) as store:
        for name in names:
            groups = {(logged.decision.unit, logged.decision.group) for logged in store.search(name, "", 1000)}
            assert len(groups) == USERS
            result = verify(store, name)
            assert (result.different, result.unchecked) == (0, 0), result.messages
