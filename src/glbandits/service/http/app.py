"""`create_app`: the service as a Starlette application."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from glbandits.service.http.endpoint import LOOP_PREFIX, Endpoint, PathHandler
from glbandits.service.http.endpoints import ENDPOINTS
from glbandits.service.http.http_errors import as_http_error, problem_response
from glbandits.service.http.personalizer.contract import PERSONALIZER_PATH, personalizer_response
from glbandits.service.http.request_log import RequestLog
from glbandits.service.http.site import Site
from glbandits.service.server_settings import Settings


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

    paths = list(_paths(site, endpoints))
    handlers = {
        (method, path.replace(LOOP_PREFIX, "*", 1)): handler.respond
        for path, handler in paths
        for method in handler.methods
        if "{" not in path.removeprefix(LOOP_PREFIX)
    }
    middleware = [Middleware(RequestLog, metrics=site.request_metrics, handlers=handlers)]
    if site.settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=site.settings.cors_origins,
            allow_methods=("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
            allow_headers=(
                *("authorization", "content-type", "if-none-match", "ocp-apim-subscription-key", "x-api-key"),
                "x-request-id",
            ),
            expose_headers=("etag", "retry-after", "x-request-id"),
        )
        middleware.insert(0, cors)
    app = Starlette(
        routes=[Route(path, handler.respond, methods=handler.methods) for path, handler in paths],
        middleware=middleware,
        exception_handlers={HTTPException: _no_endpoint_response},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a client would send its key again to the other address
    app.state.site = site
    return app


def _paths(site: Site, endpoints: Sequence[Endpoint]) -> Iterator[tuple[str, PathHandler]]:
    """Yield each path with its handler, in the order of the endpoints."""
    for path in dict.fromkeys(endpoint.path for endpoint in endpoints):
        own = [endpoint for endpoint in endpoints if endpoint.path == path]
        handler = PathHandler(site, own)
        for prefix in ("", LOOP_PREFIX) if own[0].per_loop else ("",):
            yield prefix + path, handler


def _no_endpoint_response(request: Request, error: Exception) -> Response:
    error_format = personalizer_response if PERSONALIZER_PATH.match(request.url.path) else problem_response
    return error_format(as_http_error(error, request), request, "BadRequest")
