"""Periodic background tasks of a server, such as store maintenance and deletion."""

import logging
import threading
from collections.abc import Callable

from glbandits.service.runtime.failure_log import FailureLog
from glbandits.service.runtime.retention import Retention
from glbandits.service.runtime.service import LOOPS_EVERY, Service
from glbandits.service.storage.api_keys import KEYS_EVERY

log = logging.getLogger(__name__)

MAINTAIN_EVERY, DELETE_EVERY, LEASE_EVERY = 0.5, 3600.0, 0.25
"""Seconds between two runs of each task."""
FIRST_PAUSE = 2.0
"""Seconds from the start to the first run of a task, at most."""


class Maintenance:
    """Threads that repeat the tasks, each at its own interval.

    A task that fails is retried at the next interval.

    Args:
        service: has the store and the loops.
        refresh_keys: reads the API keys again.
    """

    def __init__(self, service: Service, refresh_keys: Callable[[], object]) -> None:
        self._stop = threading.Event()
        self._failures = FailureLog(log)
        # One thread per task: a revoked key must be refused, and the WAL be checkpointed, while a long log is deleted.
        tasks: list[tuple[str, float, Callable[[], object]]] = [
            ("store maintenance", MAINTAIN_EVERY, service.store.maintain),
            ("keeping the learner's lease", LEASE_EVERY, service.store.lease.keep),
            ("reading API keys", KEYS_EVERY, refresh_keys),
            ("reading loops", LOOPS_EVERY, service.refresh_loops),
            ("deleting old events", DELETE_EVERY, Retention(service).look),
        ]
        self._threads = [threading.Thread(target=self._repeat, args=task, name=task[0], daemon=True) for task in tasks]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads. Blocks until running tasks have finished."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _repeat(self, name: str, seconds: float, work: Callable[[], object]) -> None:
        pause = min(seconds, FIRST_PAUSE)
        while not self._stop.wait(pause):
            try:
                work()
                self._failures.succeeded(name)
            except Exception as error:
                self._failures.failed(name, error)
            pause = seconds
