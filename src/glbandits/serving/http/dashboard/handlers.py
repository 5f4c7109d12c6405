"""Handlers of the dashboard: the page, and the statistics that it shows."""

import asyncio
from typing import Any

import msgspec

from glbandits.errors import lookup
from glbandits.serving.domain import verdict
from glbandits.serving.domain.loop_config import SECOND
from glbandits.serving.domain.reward_aggregates import Estimate, Tally
from glbandits.serving.http.dashboard.page import page_response
from glbandits.serving.http.dashboard.schemas import (
    ActionShare,
    Delays,
    Estimated,
    Judgement,
    Learner,
    Point,
    Statistics,
)
from glbandits.serving.http.http_messages import Request, Response
from glbandits.serving.http.site import Site
from glbandits.serving.http.v1.admin_handlers import moment
from glbandits.serving.runtime.learning_loop import Loop
from glbandits.serving.runtime.loop_statistics import Window
from glbandits.serving.runtime.service import Service

WINDOWS = {window.value: window for window in Window}
MOST_ACTIONS = 20
"""Actions that are told by name; the others are told together."""
FEWEST = 10
"""Decisions of the baseline that a point must be worth to say something of it: see `Tally.baseline_worth`."""


async def page(site: Site, request: Request) -> Response:  # noqa: ARG001 - as all handlers
    """The dashboard. The page has no data, so it needs no key; its requests for data do."""
    return page_response()


async def statistics(site: Site, request: Request) -> Response:
    """Whether a loop is learning: rewards against the baseline, shares of actions, exploration, delays."""
    loop = site.service.loop(request.loop_name)
    window = lookup("window", request.parameters().get("window", Window.HOUR), WINDOWS)
    return Response(200, msgspec.json.encode(await asyncio.to_thread(_statistics, site.service, loop, window)))


def _statistics(service: Service, loop: Loop, window: Window) -> Statistics:
    learned_at, view, evidence = loop.learned_at, loop.statistics.view(window), loop.published.evidence
    frequent = view.whole.frequent()[:MOST_ACTIONS]
    names = [name for name, _ in frequent]
    return Statistics(
        **_counted(Statistics, view.whole),
        loop=loop.name,
        window=window,
        at=moment(service.clock()),
        wait=loop.configuration.reward_wait,
        degraded=service.degraded,
        learner=Learner(
            running=service.learning,
            learned_at=None if learned_at is None else moment(learned_at),
            lag=loop.learning_lag(),
            failures=service.learning_failures,
            set_aside=loop.published.set_aside,
        ),
        past=_judgement(verdict.judge_past(evidence)),
        present=_judgement(verdict.judge_present(evidence)),
        unlimited=evidence.unlimited,
        actions=[ActionShare(id=name, decisions=count) for name, count in frequent],
        width=view.width / SECOND,
        points=[_point(begin, tally, names) for begin, tally in view.points.items()],
    )


def _judgement(judged: verdict.Judgement) -> Judgement:
    since, expected_at = (None if at is None else moment(at) for at in (judged.since, judged.expected_at))
    return Judgement(**judged._asdict() | {"since": since, "expected_at": expected_at})


def _point(begin: int, tally: Tally, names: list[str]) -> Point:
    counted = _counted(Point, tally)
    if tally.baseline_worth < FEWEST:
        counted["baseline"] = None
    return Point(**counted, at=moment(begin), actions=tuple(tally.actions.get(name, 0) for name in names))


def _counted(kind: type[Point] | type[Statistics], tally: Tally) -> dict[str, Any]:
    """The fields that a tally has under the same name, and the delays."""
    names = [name for name in kind.__struct_fields__ if hasattr(tally, name) and name not in ("actions", "delays")]
    counted = {name: getattr(tally, name) for name in names}
    estimates = {name: value._asdict() for name, value in counted.items() if isinstance(value, Estimate)}
    median, p90, p99 = ((tally.delay(share) or 0.0) / SECOND for share in (0.5, 0.9, 0.99))
    delays = Delays(median=median, p90=p90, p99=p99) if tally.delays else None
    return counted | {name: Estimated(**value) for name, value in estimates.items()} | {"delays": delays}
