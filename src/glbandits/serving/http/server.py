"""A server, from its first key to its last commit."""

import asyncio
import gc
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from types import FrameType

import numpy as np

from glbandits.serving.domain.events import DecisionRequest
from glbandits.serving.domain.request_features import DENSE
from glbandits.serving.http.application import AddRoutes, Installation
from glbandits.serving.http.auth import Authenticator, Limits
from glbandits.serving.http.connection import Connection, Connections
from glbandits.serving.http.personalizer.evaluations import end_abandoned
from glbandits.serving.http.supervisor import Place, Processes, is_another
from glbandits.serving.runtime.logging_setup import begin_log
from glbandits.serving.runtime.rate_limit import RateLimit
from glbandits.serving.runtime.service import Service, microseconds
from glbandits.serving.server_settings import Settings
from glbandits.serving.storage.api_keys import Keys, NewKey
from glbandits.serving.storage.open_store import open_store

log = logging.getLogger(__name__)

BACKLOG = 2048
SIGNALS = (signal.SIGINT, signal.SIGTERM)
FIRST_KEY = "first"
"""The name of the key that a new store gets."""
Announce = Callable[[str, NewKey | None], None]
"""Told the server's address, and the key that was made if there was none, when it takes requests."""


def serve(settings: Settings, apis: Sequence[AddRoutes], announce: Announce) -> None:
    """Answer requests until SIGTERM or SIGINT, then end in order: a second signal ends at once.

    In order: /readyz says 503, and requests are still taken for `shutdown_delay` seconds; then no new ones are, and
    those that have begun may end; what waits is written, the models are kept, and the store is closed.
    """
    begin_log(settings)
    with listen(settings.host, settings.port) as listening:
        address, first = address_of(listening), first_key(settings)
        with closing(open_store(settings.store, durability=settings.durability)) as store:
            end_abandoned(store, settings.loops, microseconds)
        run, announced = partial(answer, tuple(apis)), partial(announce, address, first)
        if settings.processes == 1:
            run(settings, listening, announced, Place())
        else:
            Processes(run, settings, listening).run(announced)


def first_key(settings: Settings) -> NewKey | None:
    """A key for a store that never had one: where all were revoked, somebody wants nobody to come in."""
    with closing(open_store(settings.store, durability=settings.durability)) as store:
        keys = Keys(store, microseconds)
        if not keys.ever_made():
            return keys.create(FIRST_KEY)
        if not keys.live():
            log.warning("all keys are revoked: nobody can come in. Make one with `glb keys create`")
        return None


def answer(
    apis: Sequence[AddRoutes],
    settings: Settings,
    listening: socket.socket,
    announce: Callable[[], None],
    place: Place,
) -> None:
    """Answer requests in this process."""
    begin_log(settings)
    store = open_store(settings.store, durability=settings.durability)
    lock = store.learner_lock()
    with closing(store), closing(lock):
        service = Service(
            store, settings.loops, queue=settings.queue, queue_bytes=settings.queue_bytes, learns=lock.held
        )
        warm_up(service)
        limits = Limits(
            body=settings.max_body,
            actions=settings.max_actions,
            dense_actions=settings.max_dense_actions,
            features=settings.max_features,
        )
        rate_limit = RateLimit(settings.rate_limit / settings.processes)
        guard = Authenticator(Keys(store, service.clock).live, rate_limit=rate_limit, limits=limits)
        installation = Installation(service, guard, settings, apis, process=place.number)
        gc.freeze()  # What is there now stays: it need not be looked through again and again.
        Server(installation, settings, announce, place).run(listening)


class Server:
    """Takes requests until it is told to stop, and tells load balancers before. A second signal ends it at once.

    Args:
        installation: answers. It starts and closes with the server.
        settings: how long it still takes requests when it is told to stop, and how long those may last.
        announce: called when it takes requests.
        place: among several processes; alone, unless it is said.
    """

    def __init__(
        self,
        installation: Installation,
        settings: Settings,
        announce: Callable[[], None] = lambda: None,
        place: Place | None = None,
    ) -> None:
        self._installation, self._announce, self._place = installation, announce, place or Place()
        self._delay, self._grace = settings.shutdown_delay, settings.shutdown_grace
        self._told_at = float("inf")

    def run(self, listening: socket.socket) -> None:
        """From the first request to the last. In a thread that is not the main one no signal reaches it: see `stop`."""
        here = threading.current_thread() is threading.main_thread()
        before = {told: signal.signal(told, self._told) for told in SIGNALS} if here else {}
        try:
            with asyncio.Runner(loop_factory=_new_event_loop) as runner:
                runner.run(self._serve(listening))
        finally:
            for told, handler in before.items():
                signal.signal(told, handler)

    def stop(self) -> None:
        """Begin the end, from any thread."""
        self._installation.health.draining, self._told_at = True, time.monotonic()

    def _told(self, told: int, _: FrameType | None) -> None:
        """The first signal begins the end; the second is the end. What was acknowledged is safe either way.

        One of several processes leaves the second to the one that looks after them.
        """
        if not self._installation.health.draining:
            self.stop()
        elif self._place.parent is None and is_another(self._told_at):
            signal.signal(told, signal.SIG_DFL)
            signal.raise_signal(told)

    async def _serve(self, listening: socket.socket) -> None:
        loop, connections = asyncio.get_running_loop(), Connections(self._installation.application)
        self._installation.start()
        try:
            server = await loop.create_server(lambda: Connection(connections, loop), sock=listening, backlog=BACKLOG)
            self._announce()
            await self._wait(connections)
            server.close()
            listening.close()
            await self._end(connections)
        finally:
            await self._installation.close()

    async def _wait(self, connections: Connections) -> None:
        """Until it is time to stop."""
        for tenths in count(1):
            if time.monotonic() >= self._told_at + self._delay or self._place.orphaned():
                return
            await asyncio.sleep(0.1)
            if tenths % 10 == 0:
                connections.tick()

    async def _end(self, connections: Connections) -> None:
        """Let those who were promised an answer have it, if it does not take too long."""
        connections.end()
        until = time.monotonic() + self._grace
        while connections.open and time.monotonic() < until:
            await asyncio.sleep(0.02)
        if connections.open:
            log.warning("%d connections were ended: shutdown_grace is over", len(connections.open))
            connections.abort()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def listen(host: str, port: int) -> socket.socket:
    """A socket at this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}; set another --port") from None


def address_of(listening: socket.socket) -> str:
    """The address at which it can be reached from this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def warm_up(service: Service) -> None:
    """Decide and learn once, with nothing kept: code that is compiled when it is first used is compiled now."""
    for loop in service.loops.values():
        width = loop.published.bandit.dim
        loop.decide(
            DecisionRequest(event_id="", request=np.zeros((2, width)).tobytes(), encoding=DENSE, actions=("a", "b"))
        )
        loop.published.bandit.copy().learn(np.zeros(width), 0.0)
