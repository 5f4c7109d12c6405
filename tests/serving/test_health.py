"""What /readyz says of the writer. The rest of it is in test_application.py."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glbandits.serving.errors import StoreError
from glbandits.serving.http.health import Health
from glbandits.serving.http.messages import Request
from glbandits.serving.metrics import RequestMetrics
from glbandits.serving.service import Service
from glbandits.serving.settings import Settings
from glbandits.serving.sqlite_store import SqliteStore
from tests.serving.makers import decision


@pytest.fixture(name="service")
def service_fixture(tmp_path: Path) -> Iterator[Service]:
    service = Service(SqliteStore(tmp_path / "store.db"))
    service.start()
    yield service
    service.close()


def reasons(service: Service, folder: Path) -> list[str]:
    health = Health(service, Settings(store=str(folder / "store.db"), min_disk=0), RequestMetrics(), 0)
    response = asyncio.run(health.ready(Request("GET", "/readyz", "", {}, "", "")))
    found: list[str] = msgspec.json.decode(response.body).get("reasons", [])
    assert response.status == (503 if found else 200)
    return found


def test_a_server_whose_store_fails_is_not_ready_until_it_works_again(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> Any:
        raise StoreError("secret/path: the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr(service.store, "append", fail)
        service.writer.submit(decision("e"))
        until = time.monotonic() + 10
        while not (found := reasons(service, tmp_path)) and time.monotonic() < until:
            time.sleep(0.01)
        assert found == ["the last events could not be written"]
    service.writer.flush()
    assert reasons(service, tmp_path) == []
    assert service.store.decision("shop", "e") is not None


def test_a_server_whose_store_is_stuck_is_not_ready(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glbandits.serving.http.health.WRITE_PATIENCE", 0.05)
    append = service.store.append

    def slow(events: Any) -> Any:
        time.sleep(0.5)
        return append(events)

    monkeypatch.setattr(service.store, "append", slow)
    written = service.writer.submit(decision("e"))
    time.sleep(0.1)
    assert reasons(service, tmp_path) == ["an event has waited to be written for more than 0.05 s"]
    written.result(10)
    service.writer.flush()
    assert reasons(service, tmp_path) == []
