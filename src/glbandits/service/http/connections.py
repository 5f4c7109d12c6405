"""Limits of connections around uvicorn's protocol: sizes, deadlines, number, pipelining.

A `LimitedConnection` is an asyncio protocol that passes its events on to uvicorn's. The application tells it, through
the state of the request, when a request begins and ends: `connection_of`.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

import uvicorn
from starlette.types import Scope

log = logging.getLogger(__name__)

MAX_HEAD = 64 * 1024
"""Bytes that may come without progress, such as the head of a request; more get 431."""
HEAD_SECONDS = 30
"""Time for the head of a request, from its first byte or from the start of the connection; then 408."""
BODY_SECONDS = 60
"""Time for the whole body of a request; then 408."""
WRITE_SECONDS = 60
"""Time for a client to read enough to unblock the write buffer; then the connection is aborted."""
TICK_SECONDS = 1
LOG_SECONDS = 10
HEAD_END = b"\r\n\r\n"
UPGRADE = re.compile(rb"(?i)\r\nupgrade:[^\r\n]*")
"""The header with which Java's client asks for HTTP/2. Without it the parser reads the body too."""


class Connection:
    """What the application tells a connection. This one does nothing, for other servers."""

    def begin(self) -> None:
        """Note that the application has a request, whose head is complete, and waits for its body."""

    def body_grows(self) -> None:
        """Note that a part of the body came, and that the application waits for more."""

    def body_ends(self) -> None:
        """Note that the application has the whole body."""

    def skip(self, size: int) -> None:
        """Note that the response comes before this many bytes of the body may have been read."""

    def end(self) -> None:
        """Note that the application has sent its response."""


def connection_of(scope: Scope) -> Connection:
    """Return the connection of a request."""
    connection: Connection = scope.get("state", {}).get("connection", NO_CONNECTION)
    return connection


NO_CONNECTION = Connection()


def limit_connections(config: uvicorn.Config, most: int) -> None:
    """Load a configuration, and put limits around its protocol of HTTP, of which it may have so many connections."""
    config.load()
    limited = Connections(most, config.http_protocol_class).protocol
    config.http_protocol_class = cast("type[asyncio.Protocol]", limited)  # uvicorn only calls it


class Connections:
    """All connections of a server: how many there are, and a timer for their deadlines.

    Args:
        most: more are refused.
        inner: makes uvicorn's protocol of a connection.
    """

    def __init__(self, most: int, inner: Callable[..., asyncio.Protocol]) -> None:
        self._most, self._inner, self._refusal_logged_at = most, inner, float("-inf")
        self._open: set[LimitedConnection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def protocol(self, **arguments: Any) -> "LimitedConnection":
        """Return the protocol of a new connection, with the arguments of uvicorn's."""
        return LimitedConnection(self, self._inner, arguments)

    def add(self, connection: "LimitedConnection") -> bool:
        """Add a connection, unless there are too many."""
        loop = asyncio.get_running_loop()
        if len(self._open) >= self._most:
            if loop.time() > self._refusal_logged_at + LOG_SECONDS:
                self._refusal_logged_at = loop.time()
                log.warning("Connections are refused: %d are open. Raise max_connections.", len(self._open))
            return False
        self._open.add(connection)
        if self._timer is None:
            self._timer = loop.call_later(TICK_SECONDS, self._tick, loop)
        return True

    def remove(self, connection: "LimitedConnection") -> None:
        """Remove a connection that was lost."""
        self._open.discard(connection)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            connection.check(now)
        self._timer = loop.call_later(TICK_SECONDS, self._tick, loop) if self._open else None


class LimitedConnection(asyncio.Protocol, Connection):
    """One connection: passes what the client sends on to uvicorn's protocol, one request at a time.

    uvicorn's protocol gets a transport that is the real one, but for pausing and resuming.
    """

    def __init__(
        self, connections: Connections, inner: Callable[..., asyncio.Protocol], arguments: dict[str, Any]
    ) -> None:
        self._connections = connections
        self._inner = inner(**arguments | {"app_state": {**arguments["app_state"], "connection": self}})
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._unparsed = b""
        """Bytes of pipelined requests. Those from `_start` on wait until uvicorn resumes reading."""
        self._start = 0
        self._is_accepted = self._is_paused = self._is_busy = self._waits_for_body = self._is_half_closed = False
        self._bytes = self._skipped = 0
        """Bytes since the last progress; and how many of them may be the rest of a body that nobody read."""
        self._deadline = self._write_deadline = 0.0
        """In the time of the event loop; 0 for no deadline."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = real = cast("asyncio.Transport", transport)
        self._is_accepted = self._connections.add(self)
        if not self._is_accepted:
            self._refuse(503)
            return
        self._deadline = self._loop.time() + HEAD_SECONDS
        self._own = SimpleNamespace(
            write=real.write,
            close=real.close,
            is_closing=real.is_closing,
            get_extra_info=real.get_extra_info,
            pause_reading=self._pause,
            resume_reading=self._resume,
        )
        self._inner.connection_made(cast("asyncio.Transport", self._own))

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._connections.remove(self)
        self._unparsed = b""
        if self._is_accepted:
            self._own.write = lambda _: None  # of requests that are still running
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if not self._is_accepted:
            return
        if not (self._is_busy or self._deadline):
            self._deadline = self._loop.time() + HEAD_SECONDS
        if self._unparsed or data.count(HEAD_END) > 1:  # several requests
            self._unparsed, self._start = self._unparsed[self._start :] + data, 0
            self._parse_next()
        else:
            self._parse(data)

    def _parse_next(self) -> None:
        """Parse pipelined requests, a head at a time, until uvicorn pauses reading because a request waits."""
        data = self._unparsed
        while self._start < len(data) and not self._is_paused and not self._transport.is_closing():
            end = data.find(HEAD_END, self._start) + len(HEAD_END)
            part = data[self._start : end] if end >= len(HEAD_END) else data[self._start :]
            self._start += len(part)
            self._parse(part)
        if self._transport.is_closing():
            return
        if self._start < len(data):
            self._transport.pause_reading()
            return
        self._unparsed, self._start = b"", 0
        if not self._is_paused:
            self._transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        self._bytes += len(data)
        if not self._is_busy and (b"pgrade" in data or b"PGRADE" in data):
            head, end, body = data.partition(HEAD_END)
            data = UPGRADE.sub(b"", head) + end + body
        self._inner.data_received(data)
        if self._bytes > MAX_HEAD:  # later, because the application may not know yet that the head is complete
            self._loop.call_soon(self._check_size)

    def _check_size(self) -> None:
        if self._bytes > MAX_HEAD + self._skipped and not self._transport.is_closing():
            self._refuse(431)

    def _pause(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def _resume(self) -> None:
        self._is_paused = False
        if self._unparsed:
            self._loop.call_soon(self._parse_next)
        else:
            self._transport.resume_reading()

    def begin(self) -> None:
        """See `Connection`."""
        self._is_busy = self._waits_for_body = True
        self._bytes, self._skipped, self._deadline = 0, 0, self._loop.time() + BODY_SECONDS

    def body_grows(self) -> None:
        """See `Connection`."""
        self._bytes = 0
        if self._is_half_closed:
            self._transport.close()

    def body_ends(self) -> None:
        """See `Connection`."""
        self._waits_for_body, self._deadline = False, 0.0

    def skip(self, size: int) -> None:
        """See `Connection`."""
        self._skipped = size

    def end(self) -> None:
        """See `Connection`."""
        self._is_busy = self._waits_for_body = False
        self._bytes, self._deadline = 0, 0.0
        if self._is_half_closed:
            self._loop.call_soon(self._close_if_idle)

    def eof_received(self) -> bool:
        """Keep the connection open for the responses to whole requests. See `asyncio.Protocol`."""
        self._is_half_closed = True
        self._loop.call_soon(self._close_if_idle)
        return True

    def _close_if_idle(self) -> None:
        if not self._unparsed and (self._waits_for_body or not self._is_busy):
            self._transport.close()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._write_deadline = self._loop.time() + WRITE_SECONDS
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._write_deadline = 0.0
        self._inner.resume_writing()

    def check(self, now: float) -> None:
        """Once a second: end the connection if a deadline has passed."""
        if self._write_deadline and now > self._write_deadline:
            self._transport.abort()
        elif self._deadline and self._is_paused:
            self._deadline += TICK_SECONDS  # the client cannot send at the moment
        elif self._deadline and now > self._deadline:
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        """Respond with an error, unless a response may have begun; close the connection."""
        if not self._is_busy or self._waits_for_body:
            text = HTTPStatus(status).phrase
            self._transport.write(
                f"HTTP/1.1 {status} {text}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
                f"connection: close\r\n\r\n{text}".encode()
            )
        self._transport.close()
