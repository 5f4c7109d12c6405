"""Servers in processes of their own, and a load on them from another one."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import numpy as np
import uvicorn
import uvloop

from glbandits.serving.http.server import address_of, first_key, listen, run_server
from glbandits.serving.server_settings import Settings, environment_of

SPAWN = get_context("spawn")
HOST = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")


class Running(NamedTuple):
    """A server that takes requests."""

    address: str
    key: str
    pid: int

    def cpu_seconds(self) -> float:
        """What it has used so far, all its threads and processes together."""
        return sum(_ticks(pid) for pid in _family(self.pid)) / TICKS


def _family(pid: int) -> list[int]:
    """A process and all that it has begun."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(one for child in children for one in _family(int(child)))]


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class Measured(NamedTuple):
    """What a load cost."""

    cpu: float
    """Seconds of the server for each request."""
    rate: float
    """Requests a second."""
    p50: float
    """Seconds that half of the replies took, at most."""
    p99: float


@contextmanager
def bare_server(reply: int) -> Iterator[Running]:
    """A server that reads a request and sends so many bytes: what HTTP alone costs."""
    with _running(_serve_bare, reply) as running:
        yield running


@contextmanager
def service(store: Path, durability: str, processes: int) -> Iterator[Running]:
    """Ours."""
    with _running(_serve_ours, str(store), durability, processes) as running:
        yield running


@contextmanager
def _running(run: Callable[..., None], *arguments: Any) -> Iterator[Running]:
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=run, args=(there, *arguments))
    process.start()
    try:
        if not here.poll(120):
            raise TimeoutError("the server did not start within 120 s")
        address, key = here.recv()
        assert process.pid is not None
        yield Running(address, key, process.pid)
    finally:
        process.terminate()
        process.join()


def _serve_bare(ready: Connection, reply: int) -> None:
    body = b"x" * reply
    head = [(b"content-length", str(reply).encode()), (b"content-type", b"application/json")]

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    listening = listen(HOST, 0)
    ready.send((f"http://{HOST}:{listening.getsockname()[1]}", ""))
    config = uvicorn.Config(
        application,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
    )
    uvicorn.Server(config).run([listening])


def _serve_ours(ready: Connection, store: str, durability: Any, processes: int) -> None:
    settings = Settings(
        store=store, durability=durability, loops=("default", "dense"), processes=processes, log_level="warning"
    )
    os.environ.update(environment_of(settings))
    listening, first = listen(HOST, 0), first_key(settings)
    assert first is not None
    announcement = (address_of(listening), first.text)
    run_server("glbandits.cli.serve:create_worker_app", settings, listening, lambda: ready.send(announcement))


class Load:
    """A process that sends requests over a few connections, the next on each when the reply is there."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._pool = ProcessPoolExecutor(1, mp_context=SPAWN)

    def measure(self, server: Running, requests: Sequence[bytes], seconds: float) -> Measured:
        """Send these requests, over and over, for so many seconds."""
        self._pool.submit(_drive, server.address, requests, self._connections, 0.3).result()
        before = server.cpu_seconds()
        took = self._pool.submit(_drive, server.address, requests, self._connections, seconds).result()
        cpu = server.cpu_seconds() - before
        p50, p99 = np.quantile(took, [0.5, 0.99]).tolist()
        return Measured(cpu / len(took), len(took) / seconds, p50, p99)

    def send_once(self, server: Running, requests: Sequence[bytes]) -> None:
        """Send each request once."""
        self._pool.submit(_drive, server.address, requests, 1, None).result()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


def _drive(address: str, requests: Sequence[bytes], connections: int, seconds: float | None) -> list[float]:
    return uvloop.run(_drive_now(address, requests, connections, seconds))


async def _drive_now(address: str, requests: Sequence[bytes], connections: int, seconds: float | None) -> list[float]:
    loop, took = asyncio.get_running_loop(), list[float]()
    host, port = urlsplit(address).netloc.split(":")
    waiting = cycle(requests) if seconds is not None else iter(requests)
    until = time.perf_counter() + (seconds if seconds is not None else 600.0)
    made = [
        await loop.create_connection(lambda: _Sender(waiting, took, until, loop.create_future()), host, int(port))
        for _ in range(connections)
    ]
    await asyncio.gather(*(sender.done for _, sender in made))
    return took


class _Sender(asyncio.Protocol):
    """One connection: sends a request, waits for the whole reply, sends the next."""

    def __init__(
        self, requests: Iterator[bytes], took: list[float], until: float, done: "asyncio.Future[None]"
    ) -> None:
        self._requests, self._took, self._until, self.done = requests, took, until, done
        self._reply = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None) if time.perf_counter() < self._until else None
        if request is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._reply, self._sent = b"", time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._reply += data
        head, found, body = self._reply.partition(b"\r\n\r\n")
        if not found:
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length or 0):
            return
        if not head.startswith(b"HTTP/1.1 20"):
            self.done.set_exception(RuntimeError(f"the server refused: {head!r} {body!r}"))
            self._transport.close()
            return
        self._took.append(time.perf_counter() - self._sent)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))
