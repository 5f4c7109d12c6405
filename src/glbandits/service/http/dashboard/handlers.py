"""Handlers of the dashboard: the page, and the statistics that it shows."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glbandits.common.errors import lookup
from glbandits.service.domain import verdict
from glbandits.service.domain.decision_totals import DecisionTotals, MeanWithError
from glbandits.service.domain.events import as_datetime
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.http.dashboard.page import page_response
from glbandits.service.http.dashboard.schemas import (
    ActionShare,
    Delays,
    Estimated,
    Judgement,
    Learner,
    Point,
    Statistics,
)
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.site import Site
from glbandits.service.runtime.loops.learning_loop import Loop
from glbandits.service.runtime.loops.loop_statistics import Window
from glbandits.service.runtime.service import Service

WINDOWS = {window.value: window for window in Window}
MAX_ACTIONS = 20
"""Actions that are listed by id; the others are summed."""
MIN_SAMPLE_SIZE = 10
"""The smallest effective sample size of the baseline for which a point has its estimate, see
`DecisionTotals.baseline_sample_size`."""


async def page(site: Site, request: Request) -> Response:  # noqa: ARG001 - all handlers have this parameter
    """Return the page. It needs no key, because it has no data; its requests for data do."""
    return page_response()


def statistics(site: Site, request: Request) -> Statistics:
    """Return the statistics of a loop: verdicts, rewards, actions, exploration, delays."""
    loop = site.service.loop(loop_name(request))
    window = lookup("window", request.query_params.get("window", Window.HOUR), WINDOWS)
    return _statistics(site.service, loop, window)


def _statistics(service: Service, loop: Loop, window: Window) -> Statistics:
    learned_at, view, evidence = loop.learned_at, loop.statistics.view(window), loop.published.evidence
    outliers = loop.published.bandit.outliers
    frequent = view.total.frequent()[:MAX_ACTIONS]
    names = [name for name, _ in frequent]
    return Statistics(
        **_counted(Statistics, view.total),
        loop=loop.name,
        window=window,
        at=as_datetime(service.clock()),
        wait=loop.configuration.reward_wait,
        degraded=service.degraded,
        learner=Learner(
            running=service.learning,
            learned_at=None if learned_at is None else as_datetime(learned_at),
            lag=loop.learning_lag(),
            failures=service.learning_failures,
            set_aside=loop.published.set_aside,
            outlying_rewards=outliers.rewards,
            outlying_values=outliers.values,
        ),
        past=_judgement(verdict.judge_past(evidence)),
        present=_judgement(verdict.judge_present(evidence)),
        unlimited=evidence.unlimited,
        actions=[ActionShare(id=name, decisions=count) for name, count in frequent],
        width=view.width / SECOND,
        points=[_point(start, totals, names) for start, totals in view.points.items()],
    )


def _judgement(judged: verdict.LoopJudgement) -> Judgement:
    since, expected_at = (None if at is None else as_datetime(at) for at in (judged.since, judged.expected_at))
    return Judgement(**judged._asdict() | {"since": since, "expected_at": expected_at})


def _point(start: int, totals: DecisionTotals, names: list[str]) -> Point:
    counted = _counted(Point, totals)
    if totals.baseline_sample_size < MIN_SAMPLE_SIZE:
        counted["baseline"] = None
    return Point(**counted, at=as_datetime(start), actions=tuple(totals.actions.get(name, 0) for name in names))


def _counted(kind: type[Point] | type[Statistics], totals: DecisionTotals) -> dict[str, Any]:
    """Return the fields of a schema that totals have with the same name, and the delays."""
    names = [name for name in kind.__struct_fields__ if hasattr(totals, name) and name not in ("actions", "delays")]
    counted = {name: getattr(totals, name) for name in names}
    estimates = {name: value._asdict() for name, value in counted.items() if isinstance(value, MeanWithError)}
    median, p90, p99 = ((totals.delay(share) or 0.0) / SECOND for share in (0.5, 0.9, 0.99))
    delays = Delays(median=median, p90=p90, p99=p99) if totals.delays else None
    return counted | {name: Estimated(**value) for name, value in estimates.items()} | {"delays": delays}
