"""Keys and loops that change while two processes serve requests, with both stores."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import glb
from tests.service.http.servers.server_process import ACTIONS, Running, running

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="one process alone can serve a store here"),
]


@pytest.fixture(scope="module", name="address")
def address_fixture(new_address: Callable[[], str]) -> str:
    return new_address()


@pytest.fixture(scope="module", name="server")
def server_fixture(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server"), store=address, processes="2") as server:
        yield server


def statuses(server: Running, path: str, key: str | None = None) -> set[int]:
    """The statuses from both processes, as far as they have answered in so many requests."""
    return {server.ask("GET", path, key=key).status for _ in range(20)}


def test_all_processes_know_a_key_when_the_command_ends(server: Running, address: str, tmp_path: Path) -> None:
    key = glb("store", "keys", "create", "new", "--store", address, folder=tmp_path).stdout.strip()
    assert statuses(server, "/v1/statistics", key) == {200}
    listed = glb("store", "keys", "list", "--store", address, folder=tmp_path).stdout
    key_id = next(line.split()[0] for line in listed.splitlines() if " new " in line)
    assert glb("store", "keys", "revoke", key_id, "--store", address, folder=tmp_path).returncode == 0
    assert statuses(server, "/v1/statistics", key) <= {401, 429}  # many unknown keys are limited


def test_all_processes_know_a_new_and_a_deleted_loop(server: Running) -> None:
    assert server.ask("POST", "/v1/loops", {"name": "shop", "configuration": {"rewardWait": "5s"}}).status == 201
    assert statuses(server, "/loops/shop/v1/statistics") == {200}
    for number in range(20):
        sent = {"eventId": f"{number}", "contextFeatures": [], "actions": ACTIONS}
        assert server.ask("POST", "/loops/shop/personalizer/v1.0/rank", sent).status == 201
    assert server.ask("DELETE", "/v1/loops/shop").status == 204
    assert statuses(server, "/loops/shop/v1/statistics") == {404}
    assert server.ask("POST", "/v1/loops", {"name": "shop"}).json["counts"]["decisions"]["accepted"] == 0
    assert statuses(server, "/loops/shop/v1/events/3") == {404}
    assert server.ask("DELETE", "/v1/loops/shop").status == 204
