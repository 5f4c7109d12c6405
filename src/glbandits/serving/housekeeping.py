"""What a server does besides answering and learning: it looks for new keys, and forgets what was kept long enough."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from glbandits.serving.configuration import SECOND
from glbandits.serving.service import Service

log = logging.getLogger(__name__)

KEYS_EVERY, FORGET_EVERY = 2.0, 3600.0
"""Seconds."""
DAY = 24 * 60 * 60 * SECOND


class Refreshed(Protocol):
    """What holds something of the store in memory, and can read it again."""

    def refresh(self) -> None:
        """Read it again."""


class Housekeeper:
    """A thread that does these things, each in its time. One that fails is tried again.

    Args:
        service: whose logs are forgotten, by `retention_days` of each loop.
        keys: is refreshed.
    """

    def __init__(self, service: Service, keys: Refreshed) -> None:
        self._service, self._keys = service, keys
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Finish what is being done, and end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        forget_at = time.monotonic()
        while not self._stop.wait(KEYS_EVERY):
            self._try(self._keys.refresh)
            if time.monotonic() >= forget_at:
                self._try(lambda: forget_old(self._service))
                forget_at = time.monotonic() + FORGET_EVERY

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception:
            log.exception("housekeeping failed; it is tried again")


def forget_old(service: Service) -> int:
    """Delete the decisions that are older than their loop keeps them, with what came of them. How many that were.

    What the model has not passed stays: the log may be kept for less time than rewards are waited for.
    """
    kept = {loop: loop.configuration.retention_days for loop in service.loops.values()}
    return sum(loop.forget(service.clock() - days * DAY) for loop, days in kept.items() if days > 0)
