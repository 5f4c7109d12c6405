"""A small application behind connections, spoken to by hand: over a wire that is none, or over a socket."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import httptools
import uvloop

from glbandits.serving.http.application import Application
from glbandits.serving.http.connection import Connection, Connections
from glbandits.serving.http.http_types import HttpError, Request, Response
from glbandits.serving.http.routing import Handler, Route, Routes
from tests.serving.http.in_process import Wire
from tests.serving.makers import LONGEST

Result = TypeVar("Result")
EVENT_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
LARGEST_BODY = 1_000


class Plain:
    """An API that tells of errors in plain text, and admits all but those who say that they are nobody."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def admit(self, request: Request, scope: str) -> None:
        if request.headers.get(b"authorization") == b"nobody":
            raise HttpError(401, "Unauthorized", f"{scope} is not for nobody")

    def refuse(self, refused: HttpError, _: Request) -> Response:
        return Response(refused.status, self._name.encode() + refused.message.encode(), b"text/plain", refused.headers)


class Site:
    """An application, and what its connections have in common. A path that begins with /swift has a swift route."""

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.asked: list[str] = []
        """What the handlers were asked for."""
        routes, api = Routes(), Plain()
        for prefix, swift in (("", False), ("/swift", True)):
            handlers: dict[str, Handler] = {
                "/echo": self.echo,
                "/wait/{gate}": self._wait_swiftly if swift else self._wait,
                "/large": self._large,
                "/nothing": self._nothing,
                "/fail": self._fail,
                "/cancelled": self._cancelled,
            }
            for path, handler in handlers.items():
                for method in ("GET", "POST"):
                    routes.add(method, prefix + path, Route(api, "use", handler, LARGEST_BODY, swift))
        self.shared = Connections(Application(routes, api))

    async def echo(self, request: Request) -> Response:
        """What has come of a request."""
        self.asked.append(request.path)
        headers = b"".join(b"%s=%s;" % header for header in sorted(request.headers.items()))
        told = (request.method.encode(), request.path.encode(), request.query.encode(), headers, request.body)
        return Response(200, b"|".join(told), b"text/plain")

    async def _wait(self, request: Request) -> Response:
        self.asked.append(request.path)
        await self.gates[request.values["gate"]].wait()
        return Response(200, request.values["gate"].encode(), b"text/plain")

    async def _wait_swiftly(self, request: Request) -> Response:
        # Events make futures for tasks and for others alike.
        return await self._wait(request)

    async def _large(self, _: Request) -> Response:
        return Response(200, bytes(8_000_000), b"application/octet-stream")

    async def _nothing(self, _: Request) -> Response:
        return Response(204)

    async def _fail(self, _: Request) -> Response:
        raise RuntimeError("nobody foresaw this")

    async def _cancelled(self, _: Request) -> Response:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        raise AssertionError


class Reply(NamedTuple):
    """A response."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


def replies(sent: bytes, *, head: bool = False) -> list[Reply]:
    """All responses that are whole, read by a parser. Those to HEAD have no body, whatever their headers say."""
    found: list[Reply] = []

    class Reader:
        def on_message_begin(self) -> None:
            self.headers, self.body = dict[bytes, bytes](), b""

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers[name] = value

        def on_body(self, body: bytes) -> None:
            self.body += body

        def on_message_complete(self) -> None:
            found.append(Reply(parser.get_status_code(), self.headers, self.body))

    if head:
        before, end, sent = sent.partition(b"\r\n\r\n")
        assert (end, sent) == (b"\r\n\r\n", b"")
        lines = before.split(b"\r\n")
        pairs = (line.partition(b": ")[::2] for line in lines[1:])
        return [Reply(int(lines[0].split()[1]), dict(pairs), b"")]
    reader = Reader()
    parser = httptools.HttpResponseParser(reader)
    parser.feed_data(sent)
    return found


class Line:
    """A connection without a network."""

    def __init__(self, site: Site) -> None:
        self.wire = Wire()
        self.connection = Connection(site.shared, asyncio.get_running_loop())
        self.connection.connection_made(self.wire)

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def closed(self) -> bool:
        return self.wire.closed

    def paused(self) -> bool:
        """Whether nothing is read."""
        return self.wire.paused

    @property
    def replies(self) -> list[Reply]:
        """What has come back so far."""
        return replies(self.wire.sent)

    def tick(self, seconds: int) -> None:
        """So much time goes by."""
        for _ in range(seconds):
            self.connection.tick()

    async def replied(self, count: int) -> list[Reply]:
        """Wait for so many responses."""
        while len(found := self.replies) < count:
            assert not self.closed(), f"the connection is closed after {found}"
            await asyncio.sleep(0)
        return found


async def settle() -> None:
    """Let all that can happen happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def asked(path: str = "/echo", *headers: str, method: str = "GET", version: str = "1.1", body: bytes = b"") -> bytes:
    """A request."""
    lines = [f"{method} {path} HTTP/{version}", *headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def in_chunks(*parts: bytes, trailers: bytes = b"") -> bytes:
    """A body in parts."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailers + b"\r\n"


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Result]]


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[int]:
    """The port of a server at work."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(site.shared, loop), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        site.shared.abort()
        server.close()
        await server.wait_closed()


async def talked(site: Site, talk: Talk[Result]) -> Result:
    """What comes of a talk over a socket."""
    async with serving(site) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await talk(reader, writer)
        finally:
            writer.transport.abort()
            await settle()


def run_in(event_loop: str, coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What comes of a coroutine in an event loop of this kind, if that does not take too long."""
    with asyncio.Runner(loop_factory=EVENT_LOOPS[event_loop]) as runner:
        return runner.run(asyncio.wait_for(coroutine, LONGEST))
