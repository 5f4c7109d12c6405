"""The application: all routes, what each response carries besides its answer, and what goes on in the background."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from glbandits.serving.housekeeping import Housekeeper
from glbandits.serving.http.asgi import Application, Request, Response, Route, Routes
from glbandits.serving.http.cors import Cors
from glbandits.serving.http.guard import Guard
from glbandits.serving.http.health import Health
from glbandits.serving.http.problems import ProblemApi
from glbandits.serving.metrics import RequestMetrics
from glbandits.serving.service import Service
from glbandits.serving.settings import Settings

log = logging.getLogger(__name__)

AddRoutes: TypeAlias = Callable[[Routes, Service, Guard], None]
"""What an API is to the application."""
NO_SNIFFING = (b"x-content-type-options", b"nosniff")


def build_application(
    service: Service, guard: Guard, settings: Settings, apis: Sequence[AddRoutes], *, process: int = 0
) -> tuple[Application, Health]:
    """The application that answers for a service, and its health, which the server tells when it stops.

    The service starts and closes with the application. `process` says which of several it runs in.
    """
    routes, problems, requests = Routes(), ProblemApi(guard), RequestMetrics()
    health = Health(service, settings, requests, process)
    health.add_routes(routes, problems)
    for add_routes in apis:
        add_routes(routes, service, guard)
    housekeeper = Housekeeper(service, guard)

    def start() -> None:
        service.start()
        housekeeper.start()

    def stop() -> None:
        housekeeper.close()
        service.close()

    finish = Finish(requests, Cors(settings.cors_origins))
    return Application(routes, problems, started=start, stopped=stop, finish=finish), health


class Finish:
    """What is done with every response: it is counted, logged, and given the headers that all have."""

    def __init__(self, requests: RequestMetrics, cors: Cors) -> None:
        self._requests, self._cors = requests, cors

    def __call__(self, request: Request, response: Response, route: Route | None, seconds: float) -> Response:
        """The response that is sent."""
        scope = route.scope if route is not None else "none"
        if b"origin" in request.headers:
            response = self._cors.answer(request, response)
        self._requests.add(scope or "open", response.status, seconds)
        level = logging.WARNING if response.status >= 500 else logging.DEBUG
        if log.isEnabledFor(level):
            # Neither the query nor the headers nor the body: they have keys and features.
            told = (request.method, request.path, response.status, 1000 * seconds)
            log.log(level, "%s %s: %d in %.1f ms", *told, extra={"request": request.name})
        status, body, kind, headers = response
        return Response(status, body, kind, (*headers, NO_SNIFFING, (b"x-request-id", request.name.encode())))
