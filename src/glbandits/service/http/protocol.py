"""uvicorn's protocol with further limits: sizes, deadlines, connections, pipelining."""

import asyncio
import logging
from asyncio import TimerHandle
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

log = logging.getLogger(__name__)

MAX_HEAD = 64 * 1024
"""Bytes of the head of a request, plus or minus `SLICE`; more get 431."""
SLICE = 1024
"""Bytes that are parsed at a time. This bounds the pipelined requests in memory."""
HEAD_SECONDS = 30
"""Time for the head of a request, from its first byte or from the start of the connection; then 408."""
BODY_SECONDS = 60
"""Time for the whole body of a request; then 408."""
WRITE_SECONDS = 60
"""Time for a client to read enough to unblock the write buffer; then the connection is aborted."""
TICK_SECONDS = 1
LOG_SECONDS = 10


class PausableFlow(FlowControl):
    """Flow control that does not resume reading while `is_held`."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class LimitedProtocol(HttpToolsProtocol):
    """A connection. `limit_concurrency` of uvicorn limits the connections of a process."""

    flow: PausableFlow
    refusal_logged_at = float("-inf")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # uvicorn would count tasks too, and pipelined requests have several for a moment.
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None
        self._unparsed = b""
        """Bytes received while pipelined requests wait."""
        self._in_head = True
        self._bytes_without_progress = 0
        """Bytes since the parser last completed a head, a part of a body or a whole request."""
        self._deadline = self._write_deadline = 0.0
        """In the time of the event loop; 0 for no deadline."""
        self._ticker: TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        """The request that is being answered. `cycle` is the newest one, which may wait for it."""
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow, now, others = PausableFlow(transport), self.loop.time(), len(self.connections) - 1
        if self._max_connections is None or others < self._max_connections:
            self._deadline = now + HEAD_SECONDS
            self._ticker = self.loop.call_later(TICK_SECONDS, self._tick)
            return
        if now > LimitedProtocol.refusal_logged_at + LOG_SECONDS:
            LimitedProtocol.refusal_logged_at = now
            log.warning("Connections are refused: %d are open. Raise max_connections.", others)
        self._refuse(503)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        self._unparsed = b""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True  # otherwise it would write to a closed connection
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open if the client sends no more, but waits for responses to whole requests."""
        has_requests = self._running is not None and not self._running.response_complete and self._in_head
        self._is_half_closed = has_requests
        return has_requests

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if not self._deadline:
            self._deadline = self.loop.time() + HEAD_SECONDS
        if len(data) <= SLICE and not self._unparsed and not self.pipeline:
            self._parse(data)
        else:
            self._unparsed += data
            self._parse_slices()

    def _parse_slices(self) -> None:
        data, start = self._unparsed, 0
        while start < len(data) and not self.pipeline and not self.transport.is_closing():
            self._parse(data[start : start + SLICE])
            start += SLICE
        self._unparsed = data[start:]
        if self.pipeline or self._unparsed:
            self.flow.is_held = True
            self.flow.pause_reading()
        elif self.flow.is_held:
            self.flow.is_held = False
            self.flow.resume_reading()

    def _parse(self, data: bytes) -> None:
        self._bytes_without_progress += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            log.info("Invalid HTTP request from %s: %s", self.client[0] if self.client else "unknown", error)
            self._refuse(400)
            return
        if self._bytes_without_progress > MAX_HEAD:
            self._refuse(431)

    def _feed(self, data: bytes) -> None:
        """Parse data.

        The parser stops after the head of a request with an Upgrade header. A new parser then gets the head without
        that header, and the body.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            method = self.parser.get_method()
            if method == b"CONNECT":
                raise httptools.HttpParserError("CONNECT is not supported") from None
            lines = [b"%s %s HTTP/1.1" % (method, self.url), b"connection: close"]
            lines += [b"%s: %s" % header for header in self.headers if header[0] not in (b"connection", b"upgrade")]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(b"\r\n".join([*lines, b"", b""]) + data[upgrade.args[0] :])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        if not self._deadline:
            self._deadline = self.loop.time() + HEAD_SECONDS

    def on_headers_complete(self) -> None:
        self._bytes_without_progress = 0
        if self.parser.should_upgrade():
            return  # see `_feed`
        self._in_head = False
        self._deadline = self.loop.time() + BODY_SECONDS
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes_without_progress = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_without_progress = 0
        if self._in_head:
            return  # an upgrade, see `_feed`
        self._in_head, self._deadline = True, 0.0
        super().on_message_complete()
        if self.cycle.response_complete:  # a refused request, whose body cancelled the keep-alive timer
            self._deadline = self.loop.time() + self.timeout_keep_alive

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.flow.is_held and not self.transport.is_closing():  # continue with pipelined requests
            self._parse_slices()
        if self._is_half_closed and self.cycle.response_complete:
            self.transport.close()

    def pause_writing(self) -> None:
        self._write_deadline = self.loop.time() + WRITE_SECONDS
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_deadline = 0.0
        super().resume_writing()

    def _tick(self) -> None:
        """Once a second: end the connection if a deadline has passed."""
        now = self.loop.time()
        if self._write_deadline and now > self._write_deadline:
            self.transport.abort()
            return
        if self.flow.read_paused and self._deadline:
            self._deadline += TICK_SECONDS  # the client cannot send at the moment
        elif self._deadline and now > self._deadline:
            self._refuse(408)
            return
        self._ticker = self.loop.call_later(TICK_SECONDS, self._tick)

    def _refuse(self, status: int) -> None:
        """Respond with an error, unless an earlier response is incomplete; close the connection."""
        waits_for_body = self.cycle is not None and not self._in_head and not self.cycle.response_started
        if not self.pipeline and (self.cycle is None or self.cycle.response_complete or waits_for_body):
            message = STATUS_LINE[status][9:-2]
            head = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(message)
            self.transport.write(STATUS_LINE[status] + head + message)
        self.transport.close()
