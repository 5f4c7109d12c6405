"""Run the service with uvicorn: socket, signals, limits of the system."""

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from types import FrameType

import uvicorn

from glbandits.common.errors import GlbanditsError
from glbandits.service.http.app import app_of
from glbandits.service.http.connections import limit_connections
from glbandits.service.http.site import Site
from glbandits.service.runtime.service import microseconds
from glbandits.service.server_settings import Settings
from glbandits.service.storage.api_keys import Keys, NewKey
from glbandits.service.storage.open_store import open_store

if sys.platform != "win32":
    import resource

log = logging.getLogger(__name__)

BACKLOG = 2048
KEEP_ALIVE = 75
"""Seconds until an idle connection is closed: longer than in proxies and clients, so that they close first."""
SPARE_FILES = 64
"""Open files of a process besides its connections."""
FIRST_KEY = "first"
"""The name of the key of a new store."""


class StartFailed(GlbanditsError):
    """The server did not start."""


def run_server(settings: Settings, listening: socket.socket, announce: Callable[[], None]) -> bool:
    """Serve requests until SIGTERM or SIGINT, then shut down gracefully.

    Returns whether the shutdown was complete: the queue was written and the models were saved. Raises GlbanditsError if
    the service does not start.

    Args:
        settings: settings of the server.
        listening: the socket to accept connections from.
        announce: called in a thread when the server accepts requests.
    """
    site = Site(settings)
    config = uvicorn.Config(
        app_of(site),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.shutdown_grace,
    )
    limit_connections(config, raise_file_limit(settings.max_connections))
    server = _Server(config, site, announce)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)  # also before uvicorn does, and after it
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(server, listening))
    return site.is_complete


async def _serve(server: "_Server", listening: socket.socket) -> None:
    try:
        await server.site.start()
        gc.freeze()  # loaded modules are permanent, so the collector need not visit them
        await server.serve([listening])
    finally:
        await server.site.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which announces its start, and delays its shutdown by `shutdown_delay`."""

    def __init__(self, config: uvicorn.Config, site: Site, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self.site, self._announce = site, announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._event_loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._announce)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: at first only /readyz says that the server stops. A second signal ends the delay."""
        delay = self.site.settings.shutdown_delay
        if not self.started or self.site.draining or not delay:
            super().handle_exit(sig, frame)
        else:
            self.site.draining = True
            self._event_loop.call_soon_threadsafe(self._event_loop.call_later, delay, super().handle_exit, sig, None)


def raise_file_limit(max_connections: int) -> int:
    """Raise the soft limit of open files to the hard limit.

    Returns `max_connections`, or the smaller number of connections that the limit allows. The server answers
    further connections with 503. Without free file descriptors the event loop would drop them silently.
    """
    if sys.platform == "win32":
        return max_connections
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS allows no infinite soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= max_connections + SPARE_FILES:
        return max_connections
    possible = max(1, soft - SPARE_FILES)
    message = (
        "max_connections is %d instead of %d, because the limit of open files is %d. Raise LimitNOFILE or ulimit -n."
    )
    log.warning(message, possible, max_connections, soft)
    return possible


def first_key(settings: Settings) -> NewKey | None:
    """Create a key for a store that never had one.

    If every key was revoked, that is deliberate: create none.
    """
    with closing(open_store(settings.store, durability=settings.durability)) as store:
        keys = Keys(store, microseconds)
        first = keys.create_first(FIRST_KEY)
        if not keys.live():
            log.warning("All keys are revoked, so every request is refused. Create one with `glb store keys create`.")
        return first


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises StartFailed with a message that names the setting to change.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartFailed(f"port {port} of {host} is in use by another program; set another --port") from None
        is_host = error.errno is None or error.errno < 0 or error.errno == errno.EADDRNOTAVAIL  # < 0: no such name
        advice = "set --host to an address of this machine" if is_host else "set another --port"
        raise StartFailed(f"cannot listen on {host}:{port}: {error.strerror}; {advice}") from None


def address_of(listening: socket.socket) -> str:
    """Return the URL of a listening socket, for clients on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
