"""Keys and loops that change while two servers serve requests, with both stores."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import glb
from tests.service.http.servers.server_process import ACTIONS, Running, running

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", name="address")
def address_fixture(new_address: Callable[[], str]) -> str:
    return new_address()


@pytest.fixture(scope="module", name="servers")
def servers_fixture(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    folder = tmp_path_factory.mktemp("servers")
    with running(folder, store=address) as first, running(folder, store=address) as second:
        second.key = first.key
        yield [first, second]


def statuses(servers: list[Running], path: str, key: str | None = None) -> set[int]:
    """The statuses from both servers."""
    return {server.ask("GET", path, key=key).status for server in servers}


def test_all_servers_know_a_key_when_the_command_ends(servers: list[Running], address: str, tmp_path: Path) -> None:
    key = glb("store", "keys", "create", "new", "--store", address, folder=tmp_path).stdout.strip()
    assert statuses(servers, "/v1/statistics", key) == {200}
    listed = glb("store", "keys", "list", "--store", address, folder=tmp_path).stdout
    key_id = next(line.split()[0] for line in listed.splitlines() if " new " in line)
    assert glb("store", "keys", "revoke", key_id, "--store", address, folder=tmp_path).returncode == 0
    assert statuses(servers, "/v1/statistics", key) <= {401, 429}  # many unknown keys are limited


def test_all_servers_know_a_new_and_a_deleted_loop(servers: list[Running]) -> None:
    server = servers[0]
    assert server.ask("POST", "/v1/loops", {"name": "shop", "configuration": {"rewardWait": "5s"}}).status == 201
    assert statuses(servers, "/loops/shop/v1/statistics") == {200}
    for number in range(20):
        sent = {"eventId": f"{number}", "contextFeatures": [], "actions": ACTIONS}
        assert server.ask("POST", "/loops/shop/personalizer/v1.0/rank", sent).status == 201
    assert server.ask("DELETE", "/v1/loops/shop").status == 204
    assert statuses(servers, "/loops/shop/v1/statistics") == {404}
    assert server.ask("POST", "/v1/loops", {"name": "shop"}).json["counts"]["decisions"]["accepted"] == 0
    assert statuses(servers, "/loops/shop/v1/events/3") == {404}
    assert server.ask("DELETE", "/v1/loops/shop").status == 204
