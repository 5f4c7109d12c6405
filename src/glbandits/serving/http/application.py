"""The application: who answers a request, and what is done with every response."""

import logging
import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import TypeAlias

from glbandits.serving.http.auth import Authenticator
from glbandits.serving.http.cors import Cors
from glbandits.serving.http.health import Health
from glbandits.serving.http.http_types import HttpError, Request, Response, as_refusal
from glbandits.serving.http.problem_details import ProblemApi
from glbandits.serving.http.routing import Api, Route, Routes
from glbandits.serving.runtime.maintenance import Maintenance
from glbandits.serving.runtime.metrics import RequestMetrics
from glbandits.serving.runtime.service import Service
from glbandits.serving.server_settings import Settings

log = logging.getLogger(__name__)

STOPPED = "the server gave it up, because it ends; send it again"
AddRoutes: TypeAlias = Callable[[Routes, Service, Authenticator], None]
"""What an API is to the application."""


class Application:
    """Answers requests, and raises nothing.

    Args:
        routes: all of them.
        fallback: tells of errors where no route was found, and no API speaks for the path.
        requests: their figures.
        cors: which pages of other origins may call.
    """

    def __init__(
        self, routes: Routes, fallback: Api, requests: RequestMetrics | None = None, cors: Cors | None = None
    ) -> None:
        self._routes, self._fallback = routes, fallback
        self._requests, self._cors = requests or RequestMetrics(), cors or Cors(())

    def open(self, request: Request) -> Route | Response:
        """Who answers a request whose head has come; or what is sent if it is refused. Its body is not there yet."""
        route: Route | None = None
        try:
            request.values, route = self._routes.find(request.method, request.path)
            if request.twice:
                raise HttpError(
                    400, "BadRequest", f"the header {request.twice.decode('latin-1')} is there twice; send it once"
                )
            route.api.admit(request, route.scope)
            told = request.headers.get(b"content-length")
            if told is not None and int(told) > route.largest_body:
                raise too_large(route)
        except Exception as error:
            return self.refuse(error, request, route)
        return route

    async def answer(self, request: Request, route: Route) -> Response:
        """What is sent for a request that came in whole."""
        try:
            response = await route.handler(request)
        except CancelledError:
            return self.refuse(HttpError(503, "Stopped", STOPPED, ((b"retry-after", b"1"),)), request, route)
        except Exception as error:
            return self.refuse(error, request, route)
        return self._finished(request, response, route)

    def refuse(self, error: Exception, request: Request, route: Route | None) -> Response:
        """What is sent for a request that failed, or was refused."""
        api = route.api if route else self._routes.speaker(request.path) or self._fallback
        return self._finished(request, api.refuse(as_refusal(error, request), request), route)

    def _finished(self, request: Request, response: Response, route: Route | None) -> Response:
        """The response, counted and logged, with leave for a page of another origin."""
        if b"origin" in request.headers:
            response = self._cors.answer(request, response)
        seconds = time.perf_counter() - request.began
        self._requests.add((route.scope or "open") if route is not None else "none", response.status, seconds)
        level = logging.WARNING if response.status >= 500 else logging.DEBUG
        if log.isEnabledFor(level):
            # Neither the query nor the headers nor the body: they have keys and features.
            told = (request.method, request.path, response.status, 1000 * seconds)
            log.log(level, "%s %s: %d in %.1f ms", *told, extra={"request": request.name})
        return response


def too_large(route: Route) -> HttpError:
    """A body has more bytes than its route takes."""
    return HttpError(413, "PayloadSizeExceeded", f"a body may have {route.largest_body} bytes; send less")


class Installation:
    """All that a server runs: the application, its health, and what goes on in the background.

    Args:
        service: answers. It starts and closes with the installation.
        guard: admits.
        settings: of the server.
        apis: add their routes.
        process: which of several this is.
    """

    def __init__(
        self, service: Service, guard: Authenticator, settings: Settings, apis: Sequence[AddRoutes], *, process: int = 0
    ) -> None:
        routes, problems, requests = Routes(), ProblemApi(guard), RequestMetrics()
        self.health = Health(service, settings, requests, process)
        self.health.add_routes(routes, problems)
        for add_routes in apis:
            add_routes(routes, service, guard)
        self.application = Application(routes, problems, requests, Cors(settings.cors_origins))
        self._service, self._housekeeper = service, Maintenance(service, guard)

    def start(self) -> None:
        """Begin to learn, and to keep house."""
        self._service.start()
        self._housekeeper.start()

    async def close(self) -> None:
        """Write the queue, save the models and close the store."""
        self._housekeeper.close()
        await self._service.close()
