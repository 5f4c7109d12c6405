"""`create_app`: the service as a Starlette application."""

import logging
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from random import getrandbits

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glbandits.service.http.endpoint import LOOP_PREFIX, Endpoint, PathHandler
from glbandits.service.http.endpoints import ENDPOINTS
from glbandits.service.http.http_errors import as_http_error, problem_response
from glbandits.service.http.personalizer.contract import PERSONALIZER_PATH, personalizer_response
from glbandits.service.http.site import Site
from glbandits.service.server_settings import Settings

log = logging.getLogger(__name__)

NO_ROUTE = "none"
"""The scope of requests without an endpoint in the metrics."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


def create_app(settings: Settings) -> Starlette:
    """Return the service as an ASGI application.

    Its lifespan opens the store, learns in the background, and closes everything. An application that mounts it must
    run that lifespan: `async with app.router.lifespan_context(app)`.

    Args:
        settings: settings of the server. Only `glb serve` uses those about sockets and processes.
    """
    return app_of(Site(settings))


def app_of(site: Site, endpoints: Sequence[Endpoint] = ENDPOINTS) -> Starlette:
    """Return an application that serves the endpoints of a site."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await site.start()
            yield
        finally:
            await site.close()

    middleware = [Middleware(RequestLog, site=site)]
    if site.settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=site.settings.cors_origins,
            allow_methods=("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
            allow_headers=("authorization", "content-type", "ocp-apim-subscription-key", "x-request-id"),
            expose_headers=("x-request-id", "retry-after"),
        )
        middleware.insert(0, cors)
    handlers = {HTTPException: _no_endpoint_response}
    routes = list(_routes(site, endpoints))
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # a client would send its key again to the other address
    app.state.site = site
    return app


def _routes(site: Site, endpoints: Sequence[Endpoint]) -> Iterator[Route]:
    """Yield a route for each path, in the order of the endpoints."""
    for path in dict.fromkeys(endpoint.path for endpoint in endpoints):
        own = [endpoint for endpoint in endpoints if endpoint.path == path]
        respond = PathHandler(site, own).respond
        for prefix in ("", LOOP_PREFIX) if own[0].per_loop else ("",):
            yield Route(prefix + path, respond, methods=[endpoint.method for endpoint in own])


def _no_endpoint_response(request: Request, error: Exception) -> Response:
    error_format = personalizer_response if PERSONALIZER_PATH.match(request.url.path) else problem_response
    return error_format(as_http_error(error, request), request, "BadRequest")


class RequestLog:
    """Middleware that gives each request an id, counts it and logs it, and adds the headers of all responses.

    Failures are logged as warnings. Refused keys and administration have the level info, all others the level debug.
    The line omits the query, the headers and the body, because they contain keys and features.
    """

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site

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
        self._site.requests.add(state["scope"], status, seconds)
        is_audited = state["scope"] == "admin" or status in (401, 403)
        level = logging.WARNING if status >= 500 else logging.INFO if is_audited else logging.DEBUG
        if log.isEnabledFor(level):
            client = scope["client"][0] if scope.get("client") else "unknown"
            values = (scope["method"], scope["path"], status, 1000 * seconds, state["key_name"], client)
            log.log(level, "%s %s: %d in %.1f ms, key %s, client %s", *values, extra={"request": state["id"]})
