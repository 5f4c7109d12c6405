"""What /readyz says of the writer. The rest of it is in test_application.py."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glbandits.serving.domain.errors import StoreError
from glbandits.serving.http.health import Health
from glbandits.serving.http.http_types import Request
from glbandits.serving.runtime.metrics import RequestMetrics
from glbandits.serving.runtime.service import Service
from glbandits.serving.server_settings import Settings
from glbandits.serving.storage.sqlite_store import SqliteStore
from tests.serving.makers import decision, run, wait_until


@pytest.fixture(name="service")
def service_fixture(tmp_path: Path) -> Iterator[Service]:
    service = Service(SqliteStore(tmp_path / "store.db"))
    service.start()
    yield service
    service.close()


async def submit(service: Service) -> None:
    """Have an event written, and do not wait for it."""
    service.writer.submit(decision("e"))


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
        failing.setattr(service.store, "append_at_once", fail, raising=False)
        run(submit(service))
        wait_until(lambda: service.writer.counts.failures > 0)
        assert reasons(service, tmp_path) == ["the last events could not be written"]
    wait_until(lambda: service.writer.counts.events == 1)
    assert reasons(service, tmp_path) == []
    assert service.store.decision("shop", "e") is not None


def test_a_server_whose_store_is_stuck_is_not_ready(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glbandits.serving.http.health.WRITE_PATIENCE", 0.05)
    append = service.store.append

    may_go = threading.Event()

    def stuck(events: Any) -> Any:
        assert may_go.wait(10)
        return append(events)

    monkeypatch.setattr(service.store, "append", stuck)
    monkeypatch.setattr(service.store, "append_at_once", lambda _: None, raising=False)
    run(submit(service))
    time.sleep(0.1)
    assert reasons(service, tmp_path) == ["an event has waited to be written for more than 0.05 s"]
    may_go.set()
    wait_until(lambda: service.writer.trouble(0.05) is None)
    assert reasons(service, tmp_path) == []
