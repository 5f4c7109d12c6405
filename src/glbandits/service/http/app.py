"""`create_app`: the service as a Starlette application."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from glbandits.service.http.dispatch import EndpointApp, RouteCache
from glbandits.service.http.endpoint import LOOP_PREFIX, Endpoint
from glbandits.service.http.endpoints import ENDPOINTS
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

    routes = [
        Route(prefix + endpoint.path, EndpointApp(endpoint, site), methods=[endpoint.method])
        for endpoint in endpoints
        for prefix in (("", LOOP_PREFIX) if endpoint.per_loop else ("",))
    ]
    middleware = [Middleware(RouteCache, routes=routes, site=site)]
    if site.settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=site.settings.cors_origins,
            allow_methods=("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
            allow_headers=("authorization", "content-type", "ocp-apim-subscription-key", "x-request-id"),
            expose_headers=("x-request-id", "retry-after"),
        )
        middleware.insert(0, cors)
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan)
    app.state.site = site
    return app
