import threading

import pytest

from glbandits.service.runtime import maintenance
from glbandits.service.runtime.maintenance import Maintenance
from glbandits.service.runtime.retention import Retention
from glbandits.service.runtime.service import Service


class Failing:
    """Keys that cannot be read the first time."""

    def __init__(self) -> None:
        self.times, self.again = 0, threading.Event()

    def refresh(self) -> None:
        self.times += 1
        if self.times == 1:
            raise OSError("the disk is away")
        self.again.set()


def test_close_works_without_a_start(service: Service) -> None:
    Maintenance(service, Failing().refresh).close()


def test_keys_are_read_during_a_long_deletion(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    monkeypatch.setattr(maintenance, "KEYS_EVERY", 0.01)
    monkeypatch.setattr(maintenance, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(Retention, "look", lambda _: done.wait(20))
    keys = Failing()
    housekeeper = Maintenance(service, keys.refresh)
    housekeeper.start()
    assert keys.again.wait(10)
    done.set()
    housekeeper.close()


def test_the_store_is_maintained(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied = threading.Event()
    monkeypatch.setattr(maintenance, "MAINTAIN_EVERY", 0.01)
    monkeypatch.setattr(service.store, "maintain", tidied.set)
    housekeeper = Maintenance(service, Failing().refresh)
    housekeeper.start()
    assert tidied.wait(10)
    housekeeper.close()
