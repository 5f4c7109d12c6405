"""Handlers of the dashboard: the page, and the statistics that it shows."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from glbandits.common.errors import lookup
from glbandits.service.domain.decision_totals import DecisionTotals
from glbandits.service.domain.events import as_datetime
from glbandits.service.domain.loop_config import SECOND
from glbandits.service.domain.verdict import judge_past, judge_present, judge_uniform
from glbandits.service.http.dashboard.schemas import ActionShare, Delays, Learner, Point, Statistics
from glbandits.service.http.endpoint import loop_name
from glbandits.service.http.site import Site
from glbandits.service.runtime.loops.loop_statistics import Window

STYLE, SCRIPTS = "page.css", ("drawing.js", "charts.js", "why.js", "events.js", "answer.js", "guardrails.js", "page.js")
WINDOWS = {window.value: window for window in Window}
MAX_ACTIONS = 20
"""Actions that are listed by id; the others are summed."""
MIN_SAMPLE_SIZE = 10
"""The smallest effective sample size of the baseline for which a point has its estimate, see
`DecisionTotals.baseline_sample_size`."""


async def page(site: Site, request: Request) -> Response:  # noqa: ARG001 - all handlers have this parameter
    """Return the page. It needs no key, because it has no data; its requests for data do."""
    return _page()


@cache
def _page() -> Response:
    """Return the page with its style and scripts. Its policy allows only these, and requests to its server."""
    folder = files(__package__)
    style = folder.joinpath(STYLE).read_text(encoding="utf-8")
    script = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    digests = [b64encode(sha256(content.encode()).digest()).decode() for content in (style, script)]
    policy = (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    content = Template(folder.joinpath("page.html").read_text(encoding="utf-8")).substitute(style=style, script=script)
    headers = {"content-security-policy": policy, "referrer-policy": "no-referrer", "cache-control": "no-cache"}
    return Response(content, headers=headers, media_type="text/html")


def statistics(site: Site, request: Request) -> Statistics:
    """Return the statistics of a loop: verdicts, rewards, actions, exploration, delays."""
    service, loop = site.service, site.service.loop(loop_name(request))
    window = lookup("window", request.query_params.get("window", Window.HOUR), WINDOWS)
    learned_at, view, model = loop.learned_at, loop.statistics.view(window), loop.published
    outliers, frequent = model.bandit.outliers, view.total.frequent()[:MAX_ACTIONS]
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
            set_aside=model.set_aside,
            outlying_rewards=outliers.rewards,
            outlying_values=outliers.values,
        ),
        past=judge_past(model.evidence),
        present=judge_present(model.evidence),
        uniform=judge_uniform(model.evidence),
        unlimited=model.evidence.unlimited,
        actions=[ActionShare(id=name, decisions=count) for name, count in frequent],
        width=view.width / SECOND,
        points=[_point(start, totals, names) for start, totals in view.points.items()],
    )


def _point(start: int, totals: DecisionTotals, names: list[str]) -> Point:
    counted = _counted(Point, totals)
    if totals.baseline_sample_size < MIN_SAMPLE_SIZE:
        counted["baseline"] = None
    return Point(**counted, at=as_datetime(start), actions=tuple(totals.actions.get(name, 0) for name in names))


def _counted(kind: type[Point] | type[Statistics], totals: DecisionTotals) -> dict[str, Any]:
    """Return the fields of a schema that totals have with the same name, and the delays."""
    names = [name for name in kind.__struct_fields__ if hasattr(totals, name) and name not in ("actions", "delays")]
    median, p90, p99 = ((totals.delay(share) or 0.0) / SECOND for share in (0.5, 0.9, 0.99))
    delays = Delays(median=median, p90=p90, p99=p99) if totals.delays else None
    return {name: getattr(totals, name) for name in names} | {"delays": delays}
