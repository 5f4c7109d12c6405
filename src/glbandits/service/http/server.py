"""Run the service with uvicorn: socket, worker processes and their supervisor, signals, limits of the system."""

import asyncio
import errno
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from glbandits.common.errors import GlbanditsError
from glbandits.service.http.app import create_app
from glbandits.service.http.protocol import LimitedProtocol
from glbandits.service.http.site import Site
from glbandits.service.runtime.logging_setup import set_up_logging
from glbandits.service.runtime.service import microseconds
from glbandits.service.server_settings import Settings, read_settings
from glbandits.service.storage.api_keys import Keys, NewKey
from glbandits.service.storage.open_store import open_store

if sys.platform != "win32":
    import resource

log = logging.getLogger(__name__)

BACKLOG = 2048
KEEP_ALIVE = 75
"""Seconds until an idle connection is closed: longer than in proxies and clients, so that they close first."""
START_SECONDS = 60
"""Time for a worker to start, and to answer the supervisor, which replaces a worker that takes longer."""
SAME_SIGNAL = 1.0
"""Seconds within which a second signal counts as a copy of the first: service managers signal workers too."""
SPARE_FILES = 64
"""Open files of a process besides its connections."""
FIRST_KEY = "first"
"""The name of the key of a new store."""


class StartFailed(GlbanditsError):
    """The server did not start."""


def run_server(settings: Settings, listening: socket.socket, announce: Callable[[], None]) -> bool:
    """Serve requests until SIGTERM or SIGINT, then shut down gracefully.

    Returns whether the shutdown was complete: the queue was written and the models were saved.

    Args:
        settings: settings of the server, which are also in the environment: each process reads them there.
        listening: the socket to accept connections from.
        announce: called when the server accepts requests.
    """
    max_connections = raise_file_limit(settings.max_connections)
    config = uvicorn.Config(
        f"{__name__}:create_worker_app",
        factory=True,
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        workers=settings.processes,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=max_connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.shutdown_grace,
        timeout_worker_healthcheck=START_SECONDS,
    )
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again after the shutdown; exit with 0
    if settings.processes == 1:
        server = uvicorn.Server(config)
        with suppress(KeyboardInterrupt):
            config.callback_notify = lambda: asyncio.to_thread(announce)
            config.timeout_notify = 10**9  # seconds until uvicorn would call it again
            server.run([listening])
        if server.lifespan.startup_failed:
            raise StartFailed("the server did not start; its log has the error")
        if server.started and not config.loaded_app.state.site.is_complete:
            return False
        return not (server.force_exit or (server.started and server.lifespan.shutdown_failed))
    logging.getLogger("uvicorn").setLevel(settings.log_level.upper())  # it logs workers that died
    supervisor = _Supervisor(config, [listening])
    supervisor.announce = announce
    with suppress(KeyboardInterrupt):
        supervisor.run()
    exit_codes = [process.exitcode for process in supervisor.processes]
    if STARTUP_FAILURE in exit_codes:
        raise StartFailed("a worker process did not start; its log has the error")
    return all(code in (0, -signal.SIGTERM, -signal.SIGINT) for code in exit_codes)  # workers end with their signal


class _Supervisor(Multiprocess):
    """uvicorn's supervisor, which starts the workers and replaces those that die."""

    announce: Callable[[], None]
    is_announced = False

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have died. Called twice a second. Announces the server once all have started."""
        for process in self.processes:
            process.child_conn.close()  # the worker has its own; without this one its death ends a ping at once
        super().keep_subprocess_alive()
        if not self.is_announced and all(process.is_ready(START_SECONDS) for process in self.processes):
            self.is_announced = True
            self.announce()


def create_worker_app() -> Starlette:
    """Create the application with the settings of the environment. uvicorn calls this function in each process."""
    settings = read_settings(environment=os.environ)
    set_up_logging(settings)
    return prepare_process(create_app(settings), settings)


def prepare_process(app: Starlette, settings: Settings) -> Starlette:
    """Prepare an application for a process that serves nothing else, and return it.

    If it cannot start, uvicorn logs one sentence. A worker shuts down when its supervisor has died. After SIGTERM,
    /readyz answers 503 and requests are accepted for `shutdown_delay` seconds before uvicorn shuts down; a second
    signal ends the delay.
    """
    if parent := multiprocessing.parent_process():
        threading.Thread(target=_stop_with_supervisor, args=(parent,), name="parent-watch", daemon=True).start()
    start_and_stop = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: Starlette) -> AsyncIterator[Any]:
        async with start_and_stop(served) as state:
            gc.freeze()  # loaded modules are permanent, so the collector need not visit them
            if settings.shutdown_delay:
                _delay_signals(served.state.site, settings.shutdown_delay)
            yield state
        if parent and not served.state.site.is_complete:
            os._exit(1)  # uvicorn would end the worker by the signal, and the supervisor would not know

    app.router.lifespan_context = lifespan

    run_lifespan = app.router.lifespan

    async def run_with_sentence(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_sentence(message: Message) -> None:
            last_line = message.get("message", "").strip().rpartition("\n")[2]
            if last_line.startswith("glbandits."):  # an error of ours, whose traceback helps nobody
                message["message"] = last_line.partition(": ")[2]
            await send(message)

        await run_lifespan(scope, receive, send_sentence)

    app.router.lifespan = run_with_sentence  # type: ignore[method-assign]
    return app


def _stop_with_supervisor(supervisor: Any) -> None:
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _delay_signals(site: Site, seconds: float) -> None:
    """Delay SIGTERM and SIGINT: call uvicorn's handler after `seconds`, or at the second signal."""
    event_loop, uvicorn_handler = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
    assert callable(uvicorn_handler)
    since = 0.0

    def drain(number: int, frame: FrameType | None) -> None:
        nonlocal since
        if not site.draining:
            site.draining, since = True, time.monotonic()
            event_loop.call_soon_threadsafe(event_loop.call_later, seconds, uvicorn_handler, number, None)
        elif time.monotonic() - since > SAME_SIGNAL:
            uvicorn_handler(number, frame)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, drain)


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
