"""Two real servers on one store."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from glbandits.service.runtime.replay.replay_verification import verify
from glbandits.service.storage.open_store import open_existing_store
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.http.servers.server_process import Running, eventually, running
from tests.service.http.servers.test_server import Caller, lost, rank

pytestmark = pytest.mark.system

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


@pytest.fixture(name="pair")
def pair_fixture(tmp_path: Path) -> Iterator[list[Running]]:
    """Two servers of one SQLite file, which learn ten times a second. The first one learns."""
    with running(tmp_path) as first, running(tmp_path) as second:
        second.key = first.key
        changed = {"rewardWait": 0.1, "modelUpdate": 0.1}
        assert first.ask("PATCH", "/v1/configuration", changed).status == 200
        assert eventually(lambda: second.ask("GET", "/v1/configuration").json["rewardWait"] == 0.1)
        assert first.learns()
        assert not second.learns()
        yield [first, second]


def test_servers_of_one_file_share_the_log_and_the_model(pair: list[Running], tmp_path: Path) -> None:
    callers = [Caller(pair[number % 2], f"caller{number}") for number in range(6)]
    for caller in callers:
        caller.start()
    assert eventually(lambda: sum(len(caller.rewarded) for caller in callers) > 50)
    assert eventually(lambda: min(server.metric("glb_model_number") for server in pair) > 0)
    for server in pair:
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    for caller in callers:
        caller.join()
    assert lost(tmp_path / "store.db", callers) == []
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        result = verify(store, "default")
    assert result.sound, result.messages
    assert result.models > 2


def test_a_killed_learner_is_replaced(pair: list[Running]) -> None:
    learner, other = pair
    learner.signal(signal.SIGKILL)
    before = other.metric("glb_model_number")
    assert other.ask("POST", "/personalizer/v1.0/rank", rank("after")).status == 201
    assert eventually(lambda: other.metric("glb_model_number") > before)
    assert other.learns()


def test_a_paused_learner_is_replaced_and_cannot_write(pair: list[Running], tmp_path: Path) -> None:
    learner, other = pair
    learner.signal(signal.SIGSTOP)
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        term, _ = store.read_lease()
        assert eventually(lambda: store.read_lease()[0] == term + 1)
        learner.signal(signal.SIGCONT)
        assert eventually(lambda: not learner.learns())
        assert other.ask("POST", "/personalizer/v1.0/rank", rank("after")).status == 201
        assert eventually(lambda: (saved := store.latest_model("default")) is not None and saved.sequence > 0)
        assert store.read_lease()[0] == term + 1
    assert other.learns()
