"""An application that is asked over connections: without a network, or at a socket of this process."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from glbandits.serving.http.application import Application
from glbandits.serving.http.connection import Connection, Connections


class Wire(asyncio.Transport):
    """The other end of a connection: what was sent to it, and whether it is closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1234)})
        self.writes: list[bytes] = []
        self.wrote = asyncio.Event()
        self.closed = self.paused = False
        self.unsent = 0
        """Bytes that the other end has not taken."""

    @property
    def sent(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        assert not self.closed, "nothing is written to a connection that is closed"
        self.writes.append(bytes(data))
        self.wrote.set()

    def close(self) -> None:
        self.closed = True
        self.wrote.set()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class InProcess(httpx.AsyncBaseTransport):
    """Sends each request over a connection of its own."""

    def __init__(self, application: Application) -> None:
        self._shared = Connections(application)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
        lines += [b"%s: %s" % header for header in request.headers.raw]
        wire, connection = Wire(), Connection(self._shared, asyncio.get_running_loop())
        connection.connection_made(wire)
        connection.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + await request.aread())
        await wire.wrote.wait()
        connection.connection_lost(None)
        (whole,) = wire.writes  # a response is written at once
        head, _, body = whole.partition(b"\r\n\r\n")
        first, *headers = head.split(b"\r\n")
        pairs = [(name, value) for name, _, value in (line.partition(b": ") for line in headers)]
        return httpx.Response(int(first.split()[1]), headers=pairs, content=body)


@contextmanager
def answering(application: Application, listening: socket.socket) -> Iterator[None]:
    """Answer requests at a socket, in a thread."""
    loop, connections = asyncio.new_event_loop(), Connections(application)

    async def run() -> None:
        server = await loop.create_server(lambda: Connection(connections, loop), sock=listening)
        await stopped.wait()
        server.close()
        connections.abort()

    stopped = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    yield
    loop.call_soon_threadsafe(stopped.set)
    thread.join()
    loop.close()
