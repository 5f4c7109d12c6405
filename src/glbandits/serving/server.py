"""A server: uvicorn, from its first key to its last commit."""

import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from types import FrameType

import numpy as np
import uvicorn

from glbandits.serving.arms import DENSE
from glbandits.serving.http.application import AddRoutes, build_application
from glbandits.serving.http.asgi import Application
from glbandits.serving.http.guard import Guard, Limits
from glbandits.serving.http.head_limit import HeadLimited
from glbandits.serving.http.health import Health
from glbandits.serving.http.personalizer.evaluations import end_abandoned
from glbandits.serving.keys import Keys, NewKey
from glbandits.serving.learner_lock import LearnerLock
from glbandits.serving.logs import begin_log
from glbandits.serving.processes import Place, Processes, is_another
from glbandits.serving.rate_limit import RateLimit
from glbandits.serving.service import Service, microseconds
from glbandits.serving.settings import Settings
from glbandits.serving.sqlite_store import SqliteStore

log = logging.getLogger(__name__)

KEEP_ALIVE = 75
"""Seconds that a silent connection is kept: longer than a proxy's or a client's, so that they close, and not we."""
BACKLOG = 2048
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
        with closing(SqliteStore(settings.store, durability=settings.durability)) as store:
            end_abandoned(store, settings.loops, microseconds)
        run, announced = partial(answer, tuple(apis)), partial(announce, address, first)
        if settings.processes == 1:
            run(settings, listening, announced, Place())
        else:
            Processes(run, settings, listening).run(announced)


def first_key(settings: Settings) -> NewKey | None:
    """A key for a store that never had one: where all were revoked, somebody wants nobody to come in."""
    with closing(SqliteStore(settings.store, durability=settings.durability)) as store:
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
    store, lock = SqliteStore(settings.store, durability=settings.durability), LearnerLock(settings.store)
    with closing(store), closing(lock):
        service = Service(store, settings.loops, queue=settings.queue, learns=lock.held)
        warm_up(service)
        limits = Limits(
            body=settings.max_body,
            actions=settings.max_actions,
            dense_actions=settings.max_dense_actions,
            features=settings.max_features,
        )
        rate_limit = RateLimit(settings.rate_limit / settings.processes)
        guard = Guard(Keys(store, service.clock).live, rate_limit=rate_limit, limits=limits)
        application, health = build_application(service, guard, settings, apis, process=place.number)
        Server(application, settings, health, announce, place).run([listening])


class Server(uvicorn.Server):
    """A uvicorn server that tells load balancers before it stops, and that a second signal stops at once."""

    def __init__(
        self,
        application: Application,
        settings: Settings,
        health: Health,
        announce: Callable[[], None],
        place: Place,
    ) -> None:
        config = uvicorn.Config(
            application,
            http=HeadLimited,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=settings.shutdown_grace,
        )
        super().__init__(config)
        self._health, self._delay, self._announce, self._place = health, settings.shutdown_delay, announce, place
        self._told_at = float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal begins the end; the second is the end. What was acknowledged is safe either way.

        One of several processes leaves the second to the one that looks after them.
        """
        if not self._health.draining:
            self._health.draining, self._told_at = True, time.monotonic()
        elif self._place.parent is None and is_another(self._told_at):
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second: whether to stop now."""
        self.should_exit |= time.monotonic() >= self._told_at + self._delay or self._place.orphaned()
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
        width = loop.published.bandit.dim
        loop.decide(event_id="", request=np.zeros((2, width)).tobytes(), encoding=DENSE, actions=("a", "b"))
        loop.published.bandit.copy().learn(np.zeros(width), 0.0)
