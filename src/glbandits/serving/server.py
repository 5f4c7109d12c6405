"""A server: uvicorn, from its first key to its last commit."""

import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType

import numpy as np
import uvicorn

from glbandits.serving.arms import DENSE
from glbandits.serving.http.application import AddRoutes, build_application
from glbandits.serving.http.guard import Guard, Limits
from glbandits.serving.http.health import Health
from glbandits.serving.keys import Keys, NewKey
from glbandits.serving.logs import begin_log
from glbandits.serving.rate_limit import RateLimit
from glbandits.serving.service import Service
from glbandits.serving.settings import Settings
from glbandits.serving.sqlite_store import SqliteStore

log = logging.getLogger(__name__)

KEEP_ALIVE = 75
"""Seconds that a silent connection is kept: longer than a proxy's or a client's, so that they close, and not we."""
BACKLOG = 2048
FIRST_KEY = "first"
"""The name of the key that a store gets when it has none."""
Announce = Callable[[str, NewKey | None], None]
"""Told the server's address, and the key that was made if there was none, when it takes requests."""


def serve(settings: Settings, apis: Sequence[AddRoutes], announce: Announce) -> None:
    """Answer requests until SIGTERM or SIGINT, then end in order: a second signal ends at once.

    In order: /readyz says 503, and requests are still taken for `shutdown_delay` seconds; then no new ones are, and
    those that have begun may end; what waits is written, the models are kept, and the store is closed.
    """
    begin_log(settings)
    listening = listen(settings.host, settings.port)
    try:
        store = SqliteStore(settings.store, durability=settings.durability)
        try:
            service = Service(store, settings.loops, queue=settings.queue)
            keys = Keys(store, service.clock)
            first = None if keys.live() else keys.create(FIRST_KEY)
            warm_up(service)
            _run(settings, service, keys, apis, listening, lambda: announce(address_of(listening), first))
        finally:
            store.close()
    finally:
        listening.close()


def _run(
    settings: Settings,
    service: Service,
    keys: Keys,
    apis: Sequence[AddRoutes],
    listening: socket.socket,
    announce: Callable[[], None],
) -> None:
    limits = Limits(
        body=settings.max_body,
        actions=settings.max_actions,
        dense_actions=settings.max_dense_actions,
        features=settings.max_features,
    )
    guard = Guard(keys.live, rate_limit=RateLimit(settings.rate_limit), limits=limits)
    application, health = build_application(service, guard, settings, apis)
    config = uvicorn.Config(
        application,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.shutdown_grace,
    )
    Server(config, health, settings.shutdown_delay, announce).run([listening])


class Server(uvicorn.Server):
    """A uvicorn server that tells load balancers before it stops, and that a second signal stops at once."""

    def __init__(self, config: uvicorn.Config, health: Health, delay: float, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._health, self._delay, self._announce = health, delay, announce
        self._stop_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal begins the end; the second is the end. What was acknowledged is safe either way."""
        if self._health.draining:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._health.draining = True
        self._stop_at = time.monotonic() + self._delay

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second: whether to stop now."""
        self.should_exit |= time.monotonic() >= self._stop_at
        return await super().on_tick(counter)


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
        width = loop.configuration.width
        loop.decide(event_id="", request=np.zeros((2, width)).tobytes(), encoding=DENSE, actions=("a", "b"))
        loop.published.bandit.copy().learn(np.zeros(width), 0.0)
