"""`create_app`: the service as a Starlette application."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from glbandits.serving.http.dispatch import EndpointApp, MethodsApp, RouteCache, send_error
from glbandits.serving.http.endpoint import LOOP_PREFIX, Endpoint
from glbandits.serving.http.endpoints import ENDPOINTS, PERSONALIZER, V1
from glbandits.serving.http.http_messages import HttpError
from glbandits.serving.http.personalizer.evaluations import end_abandoned
from glbandits.serving.http.site import EvaluateLog, Site
from glbandits.serving.server_settings import Settings

CORS_HEADERS = ("authorization", "content-type", "ocp-apim-subscription-key", "x-request-id")
CORS_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
_PERSONALIZER_PATH = re.compile(r"(.*/loops/[^/]+)?/personalizer(/|$)")

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[None]]


def create_app(settings: Settings, *, evaluate_log: EvaluateLog | None = None) -> Starlette:
    """The service as an ASGI application.

    Its lifespan opens the store, learns in the background, and closes everything. An application that mounts it must
    run that lifespan: `async with app.router.lifespan_context(app)`.

    Args:
        settings: of the server. Those about sockets and processes are for `glb serve` alone.
        evaluate_log: runs the evaluations of Personalizer's API; without it they are refused.
    """
    site = Site(settings, evaluate_log=evaluate_log)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await site.start()
        try:
            end_abandoned(site.service.store, settings.loops, site.service.clock)
            yield
        finally:
            await site.close()

    return app_of(site, lifespan)


def app_of(site: Site, lifespan: Lifespan | None = None, endpoints: Sequence[Endpoint] = ENDPOINTS) -> Starlette:
    """An application of a site and endpoints."""
    routes, middleware = routes_of(site, endpoints), list[Middleware]()
    if site.settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=site.settings.cors_origins,
            allow_methods=CORS_METHODS,
            allow_headers=CORS_HEADERS,
            expose_headers=("x-request-id", "retry-after"),
        )
        middleware.append(cors)
    app = Starlette(
        routes=routes,
        middleware=[*middleware, Middleware(RouteCache, routes=routes)],
        exception_handlers={HTTPException: _no_endpoint(site)},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.site = site
    return app


def routes_of(site: Site, endpoints: Sequence[Endpoint]) -> list[Route]:
    """A route for each path, with the methods that it has."""
    by_path: dict[str, dict[str, EndpointApp]] = {}
    for endpoint in endpoints:
        for prefix in ("", LOOP_PREFIX) if endpoint.per_loop else ("",):
            by_path.setdefault(prefix + endpoint.path, {})[endpoint.method] = EndpointApp(endpoint, site)
    return [
        Route(path, next(iter(apps.values())) if len(apps) == 1 else MethodsApp(apps), methods=list(apps))
        for path, apps in by_path.items()
    ]


def _no_endpoint(site: Site) -> Callable[[Request, Exception], Any]:
    """An exception handler for requests that no endpoint takes."""

    async def handle(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _SentError(error, site)

    return handle


class _SentError(Response):
    """Sends an error in the format of the API whose path was requested."""

    def __init__(self, error: HTTPException, site: Site) -> None:
        super().__init__()
        self._error, self._site = error, site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        path, method = scope["path"], scope["method"]
        if self._error.status_code == 405:
            routes = [route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE]
            allowed = ", ".join(sorted({method for route in routes for method in route.methods}))
            headers = ((b"allow", allowed.encode()),)
            error = HttpError(405, "MethodNotAllowed", f"{path} takes {allowed}; got {method}", headers)
        else:
            error = HttpError(404, "NotFound", f"there is nothing at {path}")
        near = PERSONALIZER[0] if _PERSONALIZER_PATH.match(path) else V1[0]
        await send_error(error, near.error_format, self._site, scope, send)
