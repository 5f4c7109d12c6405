"""`RequestLog`: the middleware that counts and logs requests, and passes those with known paths to their handlers."""

import logging
import re
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import accumulate
from random import getrandbits

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glbandits.service.http.connections import connection_of

log = logging.getLogger(__name__)

NO_ROUTE = "none"
"""The scope of requests without an endpoint in the metrics."""
BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of request durations, in seconds."""
LOOPS = "/loops/"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class RequestMetrics(Collector):
    """The counts and durations of the requests to this process."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, list[float]] = {}
        """For each scope the sum of the durations, and the number in each bucket of `BOUNDS`."""

    def add(self, scope: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._counts[scope, status] = self._counts.get((scope, status), 0) + 1
        durations = self._seconds.get(scope)
        if durations is None:
            durations = self._seconds[scope] = [0.0] * (len(BOUNDS) + 2)
        durations[0] += seconds
        durations[1 + bisect_left(BOUNDS, seconds)] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield both metrics."""
        requests = CounterMetricFamily(
            "glb_requests", "Requests, by scope and status; 4xx and 5xx are errors.", labels=("scope", "status")
        )
        for (scope, status), count in self._counts.copy().items():
            requests.add_metric((scope, str(status)), count)
        yield requests
        seconds = HistogramMetricFamily(
            "glb_request_seconds", "Time from a request to its response, in seconds.", labels=("scope",)
        )
        bounds = (*map(str, BOUNDS), "+Inf")
        for scope, (total, *numbers) in self._seconds.copy().items():
            buckets = list(zip(bounds, accumulate(numbers), strict=True))
            seconds.add_metric((scope,), buckets, sum_value=total)
        yield seconds


class RequestLog:
    """Middleware that gives each request an id, counts it and logs it, and adds the headers of all responses.

    The state of the request has the id, and its headers as a dict.

    Failures are logged as warnings. Refused keys and administration have the level info, all others the level debug.
    The line omits the query, the headers and the body, because they contain keys and features.

    Args:
        app: gets the requests that have no handler.
        metrics: counts the requests.
        handlers: by method and path. Below /loops/NAME the path is the rest, after "*".
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: RequestMetrics,
        handlers: Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]],
    ) -> None:
        self._app, self._metrics, self._handlers = app, metrics, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, headers, status = time.perf_counter(), dict(scope["headers"]), 500
        match = _REQUEST_ID.fullmatch(sent) if (sent := headers.get(b"x-request-id")) else None
        request_id = match[0] if match else b"%016x" % getrandbits(64)
        connection = connection_of(scope)
        state = scope["state"] = {
            "id": request_id.decode(),
            "headers": headers,
            "scope": NO_ROUTE,
            "key_name": "none",
            "connection": connection,
        }

        def added(status: int) -> list[tuple[bytes, bytes]]:
            own = [(b"x-content-type-options", b"nosniff"), (b"x-request-id", request_id)]
            # A client that waits for 100 Continue may omit the body, so the next bytes are ambiguous.
            return [*own, (b"connection", b"close")] if status >= 400 and b"expect" in headers else own

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *added(status)]
            await send(message)

        connection.begin()
        try:
            handler = self._handler(scope)
            if handler is None:
                await self._app(scope, receive, send_with_headers)
            else:
                response = await handler(Request(scope, receive))
                status = response.status_code
                response.raw_headers += added(status)
                await response(scope, receive, send)
        finally:
            connection.end()
        seconds = time.perf_counter() - began
        self._metrics.add(state["scope"], status, seconds)
        is_audited = state["scope"] == "admin" or status in (401, 403)
        level = logging.WARNING if status >= 500 else logging.INFO if is_audited else logging.DEBUG
        if log.isEnabledFor(level):
            client = scope["client"][0] if scope.get("client") else "unknown"
            values = (scope["method"], scope["path"], status, 1000 * seconds, state["key_name"], client)
            log.log(level, "%s %s: %d in %.1f ms, key %s, client %s", *values, extra={"request": state["id"]})

    def _handler(self, scope: Scope) -> Callable[[Request], Awaitable[Response]] | None:
        """Return the handler of an exact path, which saves the router."""
        path: str = scope["path"]
        if scope.get("root_path"):  # another application has mounted this one
            return None
        if path.startswith(LOOPS):
            name, _, rest = path[len(LOOPS) :].partition("/")
            scope["path_params"] = {"loop": name}
            return self._handlers.get((scope["method"], "*/" + rest)) if name else None
        return self._handlers.get((scope["method"], path))
