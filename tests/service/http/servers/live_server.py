"""A uvicorn server in a thread of the test."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from glbandits.service.http.connections import limit_connections
from glbandits.service.http.server import address_of, listen


@contextmanager
def live_server(app: ASGIApp, *, max_connections: int = 1000, **config: Any) -> Iterator[str]:
    """Serve an application at a free port, and return its URL."""
    settings: dict[str, Any] = {
        "http": "httptools",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "timeout_graceful_shutdown": 2,
    }
    with listen("127.0.0.1", 0) as listening:
        limited = uvicorn.Config(app, **settings | config)
        limit_connections(limited, max_connections)
        server = uvicorn.Server(limited)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        try:
            yield address_of(listening)
        finally:
            server.should_exit = True
            thread.join()
