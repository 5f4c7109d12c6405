"""A connection: from the bytes that come to requests, and from responses to the bytes that go.

Parsing is httptools' work. What is written here is which request is answered when, what of it is kept until then, and
when a connection ends. Nothing of asyncio stands between a request and its handler: docs/decisions/0013-own-server.md
has the figures.
"""

import asyncio
import logging
import re
import time
from collections import deque
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from random import getrandbits
from typing import cast

import httptools
import msgspec

from glbandits.serving.http.application import Application, too_large
from glbandits.serving.http.http_types import ONCE, Request, Response
from glbandits.serving.http.swift import run_swiftly

log = logging.getLogger(__name__)

LARGEST_HEAD = 64 * 1024
"""Bytes of a head, give or take a `BIT`."""
BIT = 4096
"""Bytes that are read before it is looked whether there are too many requests."""
MOST_AHEAD = 32
"""Requests that a connection may send before it has the response to the first."""
KEEP_ALIVE = 75
"""Seconds that a silent connection is kept, and one that takes nothing of its responses: longer than a proxy or a
client keeps it, so that they close, and not we."""
SLOWEST = 30
"""Seconds that a head may take, and that a body may say nothing."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class Connections:
    """What the connections of a server have in common."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.open: set[Connection] = set()
        self.tasks: set[asyncio.Task[Response]] = set()
        """Of requests that are being answered."""
        self.ending = False
        """Whether each ends after the requests that it has begun."""
        self.date = b""
        self.tick()

    def tick(self) -> None:
        """Called once a second: the date of the responses, and the end of connections that are silent for too long."""
        self.date = b"date: %s\r\n" % formatdate(usegmt=True).encode()
        for connection in list(self.open):
            connection.tick()

    def end(self) -> None:
        """Let each answer what it has begun, and end then."""
        self.ending = True
        for connection in list(self.open):
            connection.end_if_idle()

    def abort(self) -> None:
        """End all of them now."""
        for task in self.tasks:
            task.cancel()
        for connection in list(self.open):
            connection.abort()


class _Exchange(msgspec.Struct, eq=False):
    """A request, and its response as soon as it is there."""

    request: Request
    keep_alive: bool
    response: Response | None = None


class Connection(asyncio.Protocol):
    """One connection. Requests are answered as they come, and responses sent in the order of the requests."""

    def __init__(self, shared: Connections, loop: asyncio.AbstractEventLoop) -> None:
        self._shared, self._application, self._loop = shared, shared.application, loop
        self._parser = httptools.HttpRequestParser(self)
        self._exchanges: deque[_Exchange] = deque()
        """Those whose response was not sent yet, in order."""
        self._current: _Exchange | None = None
        """The one whose body comes."""
        self._parts: list[bytes] = []
        """Of that body."""
        self._rest = b""
        """What was received and is not read yet."""
        self._headers: dict[bytes, bytes] = {}
        self._reading = self._kept = self._silent = self._unsent = self._size = 0
        self._went_on = self._ended = self._paused = self._clogged = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It begins."""
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self._client = str(address[0]) if address else ""
        self._shared.open.add(self)
        if self._shared.ending:
            self._close()

    def connection_lost(self, _: Exception | None) -> None:
        """It is over. What was begun goes on, and nobody hears of it."""
        self._shared.open.discard(self)
        self._ended = True
        self._exchanges.clear()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._silent = 0
        if self._paused:
            self._rest += data
        else:
            self._read_all(data)

    def _read_all(self, data: bytes) -> None:
        """A bit at a time, because a few kilobytes may have a thousand requests."""
        for begin in range(0, len(data), BIT):
            if self._ended:
                return
            if self._paused:
                self._rest = data[begin:]
                return
            self._read(data[begin : begin + BIT])

    def _read(self, data: bytes) -> None:
        """What brings neither a whole head nor a part of a body is kept by the parser, and counts."""
        self._went_on = False
        try:
            self._feed(data)
        except httptools.HttpParserCallbackError:
            log.exception("a request could not be read")
            self._transport.abort()
        except httptools.HttpParserError:
            self._refuse_the_rest(400)
        self._kept = 0 if self._went_on else self._kept + len(data)
        if self._kept > LARGEST_HEAD:
            self._refuse_the_rest(431)
        if len(self._exchanges) > MOST_AHEAD and not self._ended:
            self._paused = True
            self._transport.pause_reading()

    def _feed(self, data: bytes) -> None:
        """Let the parser read on. What asks for another protocol is read as if it had not, and is the last."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as place:
            method = self._parser.get_method()
            if method == b"CONNECT":
                self._read_no_more()
                return
            head = _without_upgrade(method, self._url, self._headers, self._twice)
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(head + data[place.args[0] :])

    def eof_received(self) -> bool:
        """The other side sends no more. Whether what it has sent is still to be answered."""
        self._read_no_more()
        return bool(self._exchanges)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url, self._headers, self._twice, self._reading = b"", {}, b"", 1

    def on_url(self, url: bytes) -> None:
        """A part of its path."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers."""
        name = name.lower()
        if name in self._headers and name in ONCE:
            self._twice = name
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._went_on, self._reading = True, 0
        headers, parser = self._headers, self._parser
        if b"upgrade" in headers and parser.should_upgrade() and parser.get_method() != b"CONNECT":
            return  # It comes again, without that, from `_feed`.
        path, query = _target(self._url)
        told = headers.get(b"x-request-id")
        # By place, because names cost a microsecond.
        request = Request(
            parser.get_method().decode("ascii"),
            path,
            query,
            headers,
            self._client,
            told.decode() if told is not None and _REQUEST_ID.fullmatch(told) else f"{getrandbits(64):016x}",
            self._twice,
            time.perf_counter(),
        )
        self._current, self._headers = None, {}  # what comes after a body in chunks is of no interest
        if self._ended or (self._exchanges and not self._exchanges[-1].keep_alive):
            return  # What came behind the last request.
        keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        if b"connection" in headers and parser.get_http_version() != "1.1":
            keep_alive = False  # HTTP/1.0 would want to be told that it is
        exchange = _Exchange(request, keep_alive)
        self._exchanges.append(exchange)
        opened = self._application.open(request)
        if isinstance(opened, Response):
            # Who was not told to go on may send the body, or leave it out: what comes next could be either.
            exchange.keep_alive = exchange.keep_alive and b"expect" not in headers
            self._answered(exchange, opened)
            return
        self._current, self._route, self._parts, self._size = exchange, opened, [], 0
        if b"expect" in headers and len(self._exchanges) == 1 and headers[b"expect"].lower() == b"100-continue":
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._went_on = True
        exchange = self._current
        if exchange is None:
            return
        self._size += len(body)
        self._parts.append(body)
        if self._size > self._route.largest_body:
            self._current, self._parts = None, []
            refused = self._application.refuse(too_large(self._route), exchange.request, self._route)
            self._answered(exchange, refused)

    def on_message_complete(self) -> None:
        """It is whole."""
        self._went_on = True
        exchange, self._current = self._current, None
        if exchange is None:
            return
        request, route, parts = exchange.request, self._route, self._parts
        request.body = parts[0] if len(parts) == 1 else b"".join(parts)
        answer = self._application.answer(request, route)
        if False:
            run_swiftly(answer, partial(self._answered, exchange))
        else:
            task = self._loop.create_task(answer)
            self._shared.tasks.add(task)
            task.add_done_callback(partial(self._done, exchange))

    def _done(self, exchange: _Exchange, task: "asyncio.Task[Response]") -> None:
        self._shared.tasks.discard(task)
        if not task.cancelled():
            self._answered(exchange, task.result())

    def _answered(self, exchange: _Exchange, response: Response) -> None:
        """Send a response when it is its turn."""
        exchange.response = response
        exchanges = self._exchanges
        while exchanges and (ready := exchanges[0].response) is not None:
            sent = exchanges.popleft()
            last = not sent.keep_alive or (not exchanges and (self._ended or self._shared.ending))
            self._transport.write(encoded(sent.request, ready, self._shared.date, last=last))
            if last:
                self._close()
        if self._paused:
            self._read_on()

    def _close(self) -> None:
        """End, when what was written has gone."""
        self._ended = True
        self._exchanges.clear()
        self._transport.close()

    def _refuse_the_rest(self, status: int) -> None:
        """Answer what was begun, then say what was wrong, and end."""
        if self._ended:
            return
        self._drop_current()
        self._ended = True
        refused = _Exchange(Request("", "", "", {}, self._client, f"{getrandbits(64):016x}"), keep_alive=False)
        self._exchanges.append(refused)
        self._answered(refused, Response(status, STATUS_LINES[status][9:-2] + b"\n", b"text/plain"))

    def _read_no_more(self) -> None:
        """Answer what came whole, and end."""
        self._drop_current()
        self._ended = True
        if not self._exchanges:
            self._close()

    def _drop_current(self) -> None:
        """Forget a request of which the rest will not come."""
        if self._current is not None:
            self._exchanges.remove(self._current)
            self._current = None

    def _read_on(self) -> None:
        if not self._clogged and len(self._exchanges) <= MOST_AHEAD and not self._transport.is_closing():
            rest, self._rest, self._paused = self._rest, b"", False
            self._read_all(rest)
        if not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The other side does not take its responses: it gets no more of them."""
        self._clogged = self._paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        self._clogged = False
        self._read_on()

    def tick(self) -> None:
        """Called once a second: end what takes too long."""
        unsent = self._transport.get_write_buffer_size()
        waits_for_us = self._paused and not self._clogged
        self._silent = 0 if waits_for_us or unsent != self._unsent else self._silent + 1
        self._unsent = unsent
        self._reading += self._reading > 0 and not self._paused
        if unsent and self._silent > KEEP_ALIVE:
            self._transport.abort()  # It takes nothing: to close would wait for that.
        elif self._reading > SLOWEST or (self._current is not None and self._silent > SLOWEST):
            self._refuse_the_rest(408)
        elif not self._exchanges and self._silent > KEEP_ALIVE:
            self._close()

    def end_if_idle(self) -> None:
        """End, unless there is something to be answered."""
        if not self._exchanges:
            self._close()

    def abort(self) -> None:
        """End now."""
        self._transport.abort()


def _without_upgrade(method: bytes, url: bytes, headers: dict[bytes, bytes], twice: bytes) -> bytes:
    """A head that asks for another protocol, as one that does not, and after which the connection ends.

    The parser reads no body after the first, though clients that would rather speak HTTP/2 send one.
    """
    lines = [b"%s %s HTTP/1.1" % (method, url), b"connection: close"]
    lines += [b"%s: %s" % pair for pair in headers.items() if pair[0] not in (b"connection", b"upgrade")]
    if twice:
        lines.append(b"%s: %s" % (twice, headers[twice]))
    return b"\r\n".join([*lines, b"", b""])


def _target(url: bytes) -> tuple[str, str]:
    """Path and query, still quoted."""
    if not url.startswith(b"/"):
        try:  # GET http://host/path, as for a proxy
            parsed = httptools.parse_url(url)
        except httptools.HttpParserError:
            return url.decode("latin-1"), ""
        return (parsed.path or b"/").decode("latin-1"), (parsed.query or b"").decode("latin-1")
    path, _, query = url.decode("latin-1").partition("?")
    return path, query


def encoded(request: Request, response: Response, date: bytes, *, last: bool) -> bytes:
    """A response as it is sent."""
    status, body, kind, headers = response
    parts = [STATUS_LINES[status], date, b"x-content-type-options: nosniff\r\nx-request-id: ", request.name.encode()]
    if status == 204:
        parts.append(b"\r\n")
    else:
        parts.append(b"\r\ncontent-length: %d\r\n" % len(body))
    if body:
        parts.append(b"content-type: %s\r\n" % kind)
    parts += [b"%s: %s\r\n" % header for header in headers]
    parts.append(b"connection: close\r\n\r\n" if last else b"\r\n")
    if request.method != "HEAD":
        parts.append(body)
    return b"".join(parts)
