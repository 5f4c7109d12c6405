"""`Site`: the service and the state that all handlers share, with its start and its end."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from glbandits.service.domain.errors import QueueFull, StoreError
from glbandits.service.domain.loop_config import LoopConfig
from glbandits.service.domain.model_snapshots import FirstModel
from glbandits.service.http.auth import Authenticator, RateLimit
from glbandits.service.http.http_errors import HttpError
from glbandits.service.http.request_log import RequestMetrics
from glbandits.service.runtime.maintenance import Maintenance
from glbandits.service.runtime.service import Service, warm_up
from glbandits.service.server_settings import Settings
from glbandits.service.storage.api_keys import Keys
from glbandits.service.storage.learner_lease import EXPIRY_SECONDS
from glbandits.service.storage.open_store import open_store
from glbandits.service.storage.time_limit import time_limit

log = logging.getLogger(__name__)

READ_THREADS, READ_SECONDS, MOST_READS = 2, 5.0, 64
"""Threads for requests that only read; the time that one of them may read; and requests that read or wait, at most."""
Result = TypeVar("Result")


class Site:
    """The service and the state that its endpoints share. Belongs to one event loop.

    Args:
        settings: settings of the server.
    """

    service: Service
    authenticator: Authenticator
    """Both are set when the site has started."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.request_metrics = RequestMetrics()
        self.explanations = asyncio.Semaphore(1)
        """Held while an explanation is computed, so that at most one such thread slows down decisions."""
        self.draining = False
        """Whether the server is about to stop: it is not ready, but still serves requests."""
        self.damage: list[str] = []
        """Messages on damage of the store's files."""
        self.is_complete = True
        """Whether nothing was lost when the site closed."""
        self._opened = AsyncExitStack()
        self._readers, self._reads = ThreadPoolExecutor(READ_THREADS, "reader"), 0
        """The threads of `read`, and the number of requests that use them or wait for them."""
        self.stopping = threading.Event()
        """Set when the site closes."""

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run a function that reads the store in a thread for such work, which has few threads.

        So requests that read much delay each other, and neither decisions nor the answer whether the server is ready.
        Raises ReadTimeout if it reads for longer than `READ_SECONDS`, and QueueFull if too many requests wait.
        """
        if self._reads >= MOST_READS:
            raise QueueFull(f"{MOST_READS} requests read the store at the moment. Retry later.")

        def limited() -> Result:
            with time_limit(READ_SECONDS):
                return work()

        self._reads += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, limited)
        finally:
            self._reads -= 1

    def __getattr__(self, name: str) -> Any:
        if name in ("service", "authenticator"):
            message = "The service has not started. Run its lifespan: `async with app.router.lifespan_context(app)`."
            raise HttpError(503, "NotStarted", message)
        raise AttributeError(name)

    async def start(self) -> None:
        """Open the store, load the models, and start learning and maintenance.

        Raises StoreError; then call `close`.
        """
        await asyncio.to_thread(self._open)
        maintenance = Maintenance(self.service, self.authenticator.refresh)
        self._opened.push_async_callback(asyncio.to_thread, maintenance.close)
        self._opened.callback(self.service.stop)  # before `maintenance.close`, which then returns soon
        self.service.start()
        maintenance.start()
        threading.Thread(target=self._check_store, name="store-check", daemon=True).start()

    def _check_store(self) -> None:
        """Check the store for damage.

        This reads the whole store, so only the server that learns does it. After a crash it learns some seconds later.
        """
        until = time.monotonic() + 2 * EXPIRY_SECONDS
        while not self.service.store.lease.held:
            if time.monotonic() > until or self.stopping.wait(0.2):
                return
        try:
            self.damage = self.service.store.check()
        except StoreError as error:
            if self.stopping.is_set():
                return
            log.error("The store cannot be checked: %s", error)
            self.damage = ["a part cannot be read"]
        for line in self.damage:
            log.error("The store is damaged: %s. Restore a backup.", line)

    def _open(self) -> None:
        settings = self.settings
        first_configuration, first_model = new_loop_start(settings)
        store = open_store(settings.store, durability=settings.durability)
        self._opened.callback(store.close)
        store.lease.keep()
        service = Service(
            store,
            settings.loops,
            queue=settings.queue,
            queue_bytes=settings.queue_bytes,
            learns=lambda: store.lease.held,
            first_configuration=first_configuration,
            first_model=first_model,
        )
        self._opened.push_async_callback(service.close)
        for loop in service.loops.values():
            warm_up(loop)
        rate_limit = RateLimit(settings.rate_limit) if settings.rate_limit else None
        self.service = service
        self.authenticator = Authenticator(Keys(store, service.clock).live, rate_limit=rate_limit)

    async def close(self) -> None:
        """Write the queue, save the models and close the store."""
        self.stopping.set()
        self._readers.shutdown(wait=False, cancel_futures=True)
        try:
            async with self._opened:
                if "service" in vars(self):  # raises if the file of the store is lost or damaged
                    await asyncio.to_thread(self.service.store.maintain)
        except StoreError as error:
            log.error("The shutdown is not complete: %s", error)
            self.is_complete = False
        if "service" in vars(self) and self.service.writer.counts.lost_decisions:
            self.is_complete = False


def new_loop_start(settings: Settings) -> tuple[LoopConfig, FirstModel | None]:
    """Return the configuration and the model with which new loops start.

    Raises ModelFileError or InvalidInput if the settings `model` or `reward_window` cannot be used.
    """
    configuration = LoopConfig(reward_wait=settings.reward_window_seconds)
    return configuration, FirstModel.load(settings.model) if settings.model else None
