"""The page and its figures, as routes."""

import asyncio
from functools import partial

import msgspec

from glbandits.errors import look_up
from glbandits.serving.http.auth import OPEN, Authenticator
from glbandits.serving.http.dashboard.page import page_response
from glbandits.serving.http.dashboard.schemas import Learner, Statistics, statistics_of
from glbandits.serving.http.http_types import Request, Response
from glbandits.serving.http.problem_details import ProblemApi
from glbandits.serving.http.routing import Route, Routes
from glbandits.serving.http.v1.admin_handlers import moment
from glbandits.serving.http.v1.decision_handlers import loop_of
from glbandits.serving.http.v1.operations import Operation, Parameter, Site
from glbandits.serving.http.v1.routes import LOOP_PREFIX
from glbandits.serving.runtime.learning_loop import Loop
from glbandits.serving.runtime.loop_statistics import Window
from glbandits.serving.runtime.service import Service

WINDOWS = {window.value: window for window in Window}


async def statistics(site: Site, request: Request) -> Response:
    """Whether a loop is learning: rewards against the baseline, shares of actions, exploration, delays."""
    loop = site.service.loop(loop_of(request))
    window = look_up("window", request.parameters().get("window", Window.HOUR), WINDOWS)
    told = await asyncio.to_thread(_statistics, site.service, loop, window)
    return Response(200, msgspec.json.encode(told))


def _statistics(service: Service, loop: Loop, window: Window) -> Statistics:
    learned_at = loop.learned_at
    learner = Learner(
        running=service.learning,
        learned_at=None if learned_at is None else moment(learned_at),
        lag=loop.learning_lag(),
        failures=service.learning_failures,
    )
    return statistics_of(
        loop.statistics.view(window),
        loop=loop.name,
        window=window,
        at=service.clock(),
        wait=loop.configuration.reward_wait,
        degraded=service.degraded,
        learner=learner,
    )


OPERATIONS = (
    Operation(
        "GET",
        "/v1/statistics",
        "read",
        statistics,
        None,
        Statistics,
        (Parameter("window", "string", f"How far back to look: {', '.join(WINDOWS)}; hour unless told."),),
    ),
)
"""There for the default loop, and for every loop under its prefix."""


async def page(_: Request) -> Response:
    """The page. There is nothing of any loop in it, so it is for all."""
    return page_response()


def add_routes(routes: Routes, service: Service, guard: Authenticator) -> None:
    """The page and its figures."""
    site = Site(service, ProblemApi(guard), guard.limits)
    for prefix in ("", LOOP_PREFIX):
        routes.add("GET", f"{prefix}/dashboard", Route(site.api, OPEN, page, 0))
        for operation in OPERATIONS:
            route = Route(site.api, operation.scope, partial(operation.handler, site), 0)
            routes.add(operation.method, prefix + operation.path, route)
