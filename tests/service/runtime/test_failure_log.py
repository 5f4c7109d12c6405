"""A failure that repeats is logged when it begins and when it ends."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from glbandits.service.domain.errors import StoreError
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.runtime import maintenance
from glbandits.service.runtime.failure_log import FailureLog
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.maintenance import Maintenance
from glbandits.service.runtime.service import Service
from glbandits.service.storage.sqlite_store import SqliteStore
from tests.service.helpers import run, wait_until


class Keys:
    """API keys that nobody changes."""

    def refresh(self) -> None:
        """There is nothing to read."""


@pytest.fixture(name="service")
def service_fixture(tmp_path: Path) -> Iterator[Service]:
    service = Service(SqliteStore(tmp_path / "events.db"), ("good", "bad"))
    yield service
    run(service.close())


def records(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    return [(record.levelname, record.exc_info is not None) for record in caplog.records]


def test_each_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(logging.getLogger("test"))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            failures.failed("reading", OSError("the disk is away"))
            failures.failed("writing", OSError())
            failures.succeeded("other")
        assert failures.failing == {"reading": "the disk is away", "writing": "OSError"}
        failures.succeeded("reading")
        failures.succeeded("reading")
    assert records(caplog) == [("ERROR", True), ("ERROR", True), ("INFO", False)]


def test_a_store_error_is_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog(logging.getLogger("test")).failed("reading", StoreError("The database is away."))
    assert records(caplog) == [("ERROR", False)]
    assert caplog.messages == ["reading failed and will be retried: The database is away."]


def test_a_failing_learner_is_logged_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    learn = Loop.learn

    def fail(loop: Loop, seconds: float) -> int:
        if loop.name == "bad":
            raise OSError("the disk is full")
        return learn(loop, seconds)

    for loop in service.loops.values():
        loop.configure(LoopConfig(width=2, model_update=0.0))
    with caplog.at_level(logging.INFO):
        with monkeypatch.context() as patched:
            patched.setattr(Loop, "learn", fail)
            service.start()
            wait_until(lambda: service.learning_failures > 3)
            assert service.learning_failed == "learning of loop bad: the disk is full"
        wait_until(lambda: service.learning_failed is None)
    assert records(caplog) == [("ERROR", True), ("INFO", False)]
    assert caplog.messages[1] == "learning of loop bad works again"


def test_failing_maintenance_is_logged_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = []

    def fail() -> None:
        attempts.append(1)
        if len(attempts) < 5:
            raise OSError("the disk is full")

    monkeypatch.setattr(maintenance, "MAINTAIN_EVERY", 0.005)
    monkeypatch.setattr(service.store, "maintain", fail)
    with caplog.at_level(logging.INFO):
        threads = Maintenance(service, Keys().refresh)
        threads.start()
        wait_until(lambda: len(attempts) > 5)
        threads.close()
    assert records(caplog) == [("ERROR", True), ("INFO", False)]
