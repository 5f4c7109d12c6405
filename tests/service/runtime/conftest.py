"""Fixtures of tests of the service: a service, and a store that can block and fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from glbandits.service.runtime import batch_writer
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run
from tests.service.runtime.fake_store import FakeStore


@pytest.fixture(name="service")
def service_fixture(tmp_path: Path) -> Iterator[Service]:
    """A service with the default loop."""
    service = Service(SqliteStore(tmp_path / "events.db"))
    yield service
    run(service.close())


@pytest.fixture(name="fake_store")
def fake_store_fixture(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    monkeypatch.setattr(batch_writer, "RETRY_SECONDS", 0.005)
    return FakeStore()
