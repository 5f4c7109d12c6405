"""Handlers of the dashboard: the page, and the statistics that it shows."""

import asyncio

import msgspec

from glbandits.errors import look_up
from glbandits.serving.http.dashboard.page import page_response
from glbandits.serving.http.dashboard.schemas import Learner, Statistics, statistics_of
from glbandits.serving.http.http_messages import Request, Response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.admin_handlers import moment
from glbandits.serving.runtime.learning_loop import Loop
from glbandits.serving.runtime.loop_statistics import Window
from glbandits.serving.runtime.service import Service

WINDOWS = {window.value: window for window in Window}


async def page(site: Site, request: Request) -> Response:  # noqa: ARG001 - as all handlers
    """The dashboard. The page has no data, so it needs no key; its requests for data do."""
    return page_response()


async def statistics(site: Site, request: Request) -> Response:
    """Whether a loop is learning: rewards against the baseline, shares of actions, exploration, delays."""
    loop = site.service.loop(request.loop_name)
    window = look_up("window", request.parameters().get("window", Window.HOUR), WINDOWS)
    return Response(200, msgspec.json.encode(await asyncio.to_thread(_statistics, site.service, loop, window)))


def _statistics(service: Service, loop: Loop, window: Window) -> Statistics:
    learned_at = loop.learned_at
    learner = Learner(
        running=service.learning,
        learned_at=None if learned_at is None else moment(learned_at),
        lag=loop.learning_lag(),
        failures=service.learning_failures,
        set_aside=loop.published.set_aside,
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
