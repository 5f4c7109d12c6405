"""`RequestLog`: the middleware that counts and logs requests."""

import logging
import re
import time
from functools import cache
from random import getrandbits

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

NO_ROUTE = "none"
"""The scope of requests without an endpoint in the metrics."""
BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of request durations, in seconds."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")

disable_created_metrics()  # type: ignore[no-untyped-call]


class RequestLog:
    """Middleware that gives each request an id, counts it and logs it, and adds the headers of all responses.

    Failures are logged as warnings. Refused keys and administration have the level info, all others the level debug.
    The line omits the query, the headers and the body, because they contain keys and features.
    """

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._requests = Counter(
            "glb_requests",
            "Requests, by scope and status; 4xx and 5xx are errors.",
            ("scope", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "glb_request_seconds",
            "Time from a request to its response, in seconds.",
            ("scope",),
            registry=registry,
            buckets=BOUNDS,
        )

        self._metrics = cache(self._find_metrics)

    def _find_metrics(self, scope: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(scope, status), self._seconds.labels(scope)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, headers, status = time.perf_counter(), dict(scope["headers"]), 500
        match = _REQUEST_ID.fullmatch(headers.get(b"x-request-id", b""))
        request_id = match[0] if match else b"%016x" % getrandbits(64)
        state = scope["state"] = {"id": request_id.decode(), "scope": NO_ROUTE, "key_name": "none"}
        added = [(b"x-content-type-options", b"nosniff"), (b"x-request-id", request_id)]

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status >= 400 and b"expect" in headers:
                    # A client that waits for 100 Continue may omit the body, so the next bytes are ambiguous.
                    added.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)
        seconds = time.perf_counter() - began
        requests, durations = self._metrics(state["scope"], status)
        requests.inc()
        durations.observe(seconds)
        is_audited = state["scope"] == "admin" or status in (401, 403)
        level = logging.WARNING if status >= 500 else logging.INFO if is_audited else logging.DEBUG
        if log.isEnabledFor(level):
            client = scope["client"][0] if scope.get("client") else "unknown"
            values = (scope["method"], scope["path"], status, 1000 * seconds, state["key_name"], client)
            log.log(level, "%s %s: %d in %.1f ms, key %s, client %s", *values, extra={"request": state["id"]})
