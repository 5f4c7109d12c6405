"""What a server does besides answering and learning: it tidies its store, reads new keys, and forgets what is old."""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from glbandits.serving.domain.loop_config import SECOND
from glbandits.serving.runtime.service import Service

log = logging.getLogger(__name__)

TIDY_EVERY, KEYS_EVERY, FORGET_EVERY = 0.5, 2.0, 3600.0
"""Seconds."""
DAY = 24 * 60 * 60 * SECOND


class Refreshed(Protocol):
    """What holds something of the store in memory, and can read it again."""

    def refresh(self) -> None:
        """Read it again."""


class Maintenance:
    """Threads that do these things, each in its time. What fails is tried again.

    Args:
        service: whose store is tidied, and whose logs are forgotten, by `retention_days` of each loop.
        keys: is refreshed.
    """

    def __init__(self, service: Service, keys: Refreshed) -> None:
        self._stop = threading.Event()
        # A thread each: a key that was revoked must not work on, nor writes wait, while a long log is deleted.
        chores: dict[str, tuple[float, Callable[[], object]]] = {
            "tidy": (TIDY_EVERY, service.store.tidy),
            "keys": (KEYS_EVERY, keys.refresh),
            "forget": (FORGET_EVERY, partial(forget_old, service)),
        }
        self._threads = [
            threading.Thread(target=self._every, args=chore, name=name, daemon=True) for name, chore in chores.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Finish what is being done, and end."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _every(self, seconds: float, work: Callable[[], object]) -> None:
        pause = min(seconds, KEYS_EVERY)
        while not self._stop.wait(pause):
            try:
                work()
            except Exception:
                log.exception("housekeeping failed; it is tried again")
            pause = seconds


def forget_old(service: Service) -> int:
    """Delete the decisions that are older than their loop keeps them, with what came of them. How many that were.

    What the model has not passed stays: the log may be kept for less time than rewards are waited for.
    """
    kept = {loop: loop.configuration.retention_days for loop in service.loops.values()}
    return sum(loop.forget(service.clock() - days * DAY) for loop, days in kept.items() if days > 0)
