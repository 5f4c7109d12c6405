"""Keys and loops that change while two processes serve requests, with both stores."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.in_process import glb
from tests.service.http.servers.server_process import Running, running

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="one process alone can serve a store here"),
]


@pytest.fixture(scope="module", name="address")
def address_fixture(new_address: Callable[[], str]) -> str:
    return new_address()


@pytest.fixture(scope="module", name="server")
def server_fixture(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server"), "--processes", "2", store=address) as server:
        yield server


def statuses(server: Running, path: str, key: str | None = None) -> set[int]:
    """The statuses from both processes, as far as they have answered in so many requests."""
    return {server.ask("GET", path, key=key).status for _ in range(20)}


def test_all_processes_know_a_key_when_the_command_ends(server: Running, address: str, tmp_path: Path) -> None:
    key = glb("keys", "create", "new", "--store", address, folder=tmp_path).stdout.strip()
    assert statuses(server, "/v1/statistics", key) == {200}
    listed = glb("keys", "list", "--store", address, folder=tmp_path).stdout
    key_id = next(line.split()[0] for line in listed.splitlines() if " new " in line)
    assert glb("keys", "revoke", key_id, "--store", address, folder=tmp_path).returncode == 0
    assert statuses(server, "/v1/statistics", key) == {401}
