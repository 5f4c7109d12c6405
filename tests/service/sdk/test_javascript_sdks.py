"""The official JavaScript SDK of v1.0, unmodified, against a real server on both stores. npm installs it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.http.servers.server_process import Running, running
from tests.service.sdk.installed_scripts import installed_scripts

pytestmark = pytest.mark.system


@pytest.fixture(scope="module", name="scripts")
def scripts_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed_scripts("javascript", tmp_path_factory)


@pytest.fixture(scope="module", name="server")
def server_fixture(
    tmp_path_factory: pytest.TempPathFactory,
    scripts: Path,  # noqa: ARG001
    new_address: Callable[[], str],
) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server"), "--loops", "default,shop", store=new_address()) as server:
        yield server


def printed(scripts: Path, script: str, server: Running, prefix: str = "", *more: str) -> Any:
    command = ["node", str(scripts / script), server.address + prefix, str(server.key), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("loop", ["", "shop"])
def test_the_sdk_of_v1(scripts: Path, server: Running, loop: str) -> None:
    got = printed(scripts, "v1.cjs", server, "", loop)
    assert got["rankStatus"] == 201
    assert got["ranked"]["eventId"] == "evt 1/å"
    assert got["ranked"]["rewardActionId"] == "pasta"
    assert got["ranked"]["ranking"] == [{"id": "pasta", "probability": 1}, {"id": "juice", "probability": 0}]
    assert got["statuses"] == [204, 204]
    assert got["refused"] == {"status": 400, "code": "BadRequest"}
    assert got["tooMuch"]["status"] == 400
    assert got["unknown"]["status"] == 404
    assert got["stranger"] == {"status": 401, "code": "BadRequest"}
