"""The audit of a router: table, sentences, page with a picture of quality against cost, and JSON file."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from glbandits.common.display.charts import HEIGHT, WIDTH, chart_html, finish, inline, rounded
from glbandits.common.display.data_table import DataTable
from glbandits.common.display.displayed import percent
from glbandits.common.display.html_page import Section, paragraph, write_page
from glbandits.common.display.palette import BLACK, BLUE, GREEN, GREY, ORANGE, VERMILLION
from glbandits.common.display.text_format import NO_VALUE, significant
from glbandits.common.version import __version__
from glbandits.evaluation.estimators.headline import DoublyRobustEstimate
from glbandits.evaluation.estimators.support import NO_EVIDENCE
from glbandits.evaluation.estimators.targets import ARM_PREFIX
from glbandits.evaluation.report.record import write_json
from glbandits.routing.audit import BUDGET, DOUBTS, MIX, ROUTER, TAIL, UNIFORM, Audited, RouterAudit

PAGE, RECORD = "audit.html", "audit.json"
KINDS = {
    ROUTER: ("the router of the log", BLACK, "diamond"),
    ARM_PREFIX: ("one model", BLUE, "circle"),
    BUDGET: ("a router with a budget", VERMILLION, "square"),
    MIX: ("a mix of two", GREEN, "triangle-up"),
    UNIFORM: ("a random model", ORANGE, "cross"),
}
"""Name, colour and shape of each kind of candidate, by how names begin."""
LOG_RATIO = 20.0
"""Ratio of the largest and the smallest cost from which the axis of costs is logarithmic."""
LINE_POINTS = 30


def audit_table(audit: RouterAudit) -> DataTable:
    """Return the estimates of all candidates, with their doubts and what these mean."""
    measures = [*audit.audited[0].values]
    columns = [text for measure in measures for text in (measure, f"{percent(audit.level)} interval")]
    rows = []
    for each in audit.audited:
        cells = [text for measure in measures for text in _cells(measure, each.values[measure])]
        doubts = ", ".join(doubt for doubt in each.doubts if doubt in DOUBTS)
        rows.append([each.name, *cells, f"{each.rows:,}", f"{each.sample_size:,.0f}", doubts])
    found = {doubt for each in audit.audited for doubt in each.doubts}
    notes = [f"{doubt}: {meaning}." for doubt, meaning in DOUBTS.items() if doubt in found]
    return DataTable(["policy", *columns, "rows", "effective rows", "doubts"], rows, ("doubts",), notes=notes)


def notes_of(audit: RouterAudit) -> list[str]:
    """Return what was left out, and for which candidates there is not enough evidence."""
    reasons = [f"{each.name}: {doubt}" for each in audit.audited for doubt in each.doubts if doubt not in DOUBTS]
    return [*audit.notes, *reasons]


def sentences_of(audit: RouterAudit) -> list[str]:
    """Return the answer: the router of the log, and for each budget the best mix and a router with this budget."""
    router = audit.audited[0]
    means = " and ".join(f"a mean {name} of {_in_words(name, value)}" for name, value in router.values.items())
    sentences = [f"The router had {means} in {router.rows:,} decisions."]
    known = {each.name for each in audit.audited}
    for budget, best in audit.budgets.items():
        is_today = f"{budget:.3g}" == f"{router.values['cost'].value:.3g}"
        start = f"At the cost of today, {budget:g}" if is_today else f"Budget {budget:g}"
        kind = "the best mix" if best.startswith(MIX) else "the best single model"
        candidates = [(best, f"{kind}, {best},"), (f"{BUDGET}{budget:g}", "a router that has learned half of the log")]
        sentences += [f"{start}: {_answer(audit[name], who)}" for name, who in candidates if name in known]
        if not best:
            sentences.append(f"{start}: no mix of the models that the log knows is so cheap.")
    return sentences


def write_audit(audit: RouterAudit, folder: Path, source: str, command: str) -> tuple[Path, Path]:
    """Write the page and the JSON file into a folder; return both paths. The page needs no network."""
    answer = "\n".join(map(paragraph, sentences_of(audit)))
    header = paragraph(f"This page was written by glbandits {__version__} from {source}.")
    sections = [Section("answer", "Answer", answer)]
    if "quality" in audit.audited[0].values:
        about = (
            "Every point is a way to route the prompts of the log. Crosses are "
            f"{percent(audit.level)} intervals, each for one number alone. The dotted line has the best mixes of two "
            "models by the same estimates, so it is slightly too high. Click on a kind to see it alone."
        )
        chart = f"<figure>{chart_html(_chart(audit), 'chart-quality-cost')}</figure>"
        sections.append(Section("picture", "Quality against cost", f"{paragraph(about)}\n{chart}"))
    notes = "\n".join(paragraph(f"{note}.", "warning") for note in notes_of(audit))
    sections.append(Section("estimates", "Estimates", f"{audit_table(audit).to_html()}\n{notes}"))
    page = write_page(folder / PAGE, "Audit of a router", header, sections, command)
    values = {"made_by": f"glbandits {__version__}", "command": command, "log": source}
    record = write_json(folder / RECORD, values | {"answer": sentences_of(audit)} | asdict(audit))
    return page, record


def _cells(measure: str, estimate: DoublyRobustEstimate) -> tuple[str, str]:
    if estimate.fixed_n is None:
        return NO_VALUE, NO_EVIDENCE
    return _number(measure, estimate.value), " to ".join(_number(measure, bound) for bound in estimate.fixed_n)


def _number(measure: str, value: float) -> str:
    return f"{value:.3f}" if measure == "quality" else significant(value)


def _in_words(measure: str, estimate: DoublyRobustEstimate) -> str:
    value, bounds = _cells(measure, estimate)
    return f"{value} ({bounds})"


def _answer(each: Audited, who: str) -> str:
    """Return a sentence about quality and cost of a candidate."""
    if math.isnan(sum(each.point)):
        return f"{NO_EVIDENCE} about {who.rstrip(',')}."
    gain = each.gains["quality"]
    quality, cost = (_in_words(measure, each.values[measure]) for measure in ("quality", "cost"))
    less = f"{abs(gain.value):.3f} {'less' if gain.value < 0.0 else 'more'} quality"
    between = "" if gain.fixed_n is None else f" ({gain.fixed_n.low:+.3f} to {gain.fixed_n.high:+.3f})"
    doubt = " Do not trust the interval of this cost." if TAIL in each.doubts else ""
    found = f"{who} would have had a quality of {quality} at a cost of {cost}"
    return f"{found}: {less}{between} than the router on the same rows.{doubt}"


def _chart(audit: RouterAudit) -> Any:
    shown = [each for each in audit.audited if not math.isnan(sum(each.point))]
    costs = [each.point[0] for each in shown if each.point[0] > 0.0]
    least = min(costs, default=0.0)
    is_log = len(costs) == len(shown) and max(costs) > LOG_RATIO * least
    points = [_point(each, least / 2.0 if is_log else 0.0) for each in shown]
    kinds = [kind for kind in KINDS.values() if any(point["kind"] == kind[0] for point in points)]
    x = alt.X(
        "cost:Q",
        title="mean cost of a decision",
        scale=alt.Scale(type="log" if is_log else "linear", padding=30, nice=False),
    )
    y = alt.Y("quality:Q", title="mean quality", scale=alt.Scale(zero=False, padding=15))
    x = x.axis(format="~g", labelOverlap=True, tickCount=5)
    legend = alt.Legend(orient="bottom", columns=2, symbolOpacity=1, labelLimit=300)
    names = [kind[0] for kind in kinds]
    colour = alt.Color("kind:N", title=None, legend=legend, scale=alt.Scale(domain=names, range=[k[1] for k in kinds]))
    shape = alt.Shape("kind:N", title=None, legend=legend, scale=alt.Scale(domain=names, range=[k[2] for k in kinds]))
    chosen = alt.selection_point("chosen", fields=["kind"], bind="legend")
    visible = alt.when(chosen).then(alt.value(1.0)).otherwise(alt.value(0.06))
    base = alt.Chart(inline(points)).encode(color=colour, opacity=visible)
    tooltip = ["policy:N", *(alt.Tooltip(f"{name}:Q", format=".4~g") for name in BOUNDS)]
    line = alt.Chart(inline([*_line(audit)])).mark_line(strokeDash=[3, 3], color=GREY)
    layers = [
        line.encode(x=x, y=y, order="cost:Q"),
        base.mark_rule(strokeWidth=1.5).encode(x="cost_low:Q", x2="cost_high:Q", y=y),
        base.mark_rule(strokeWidth=1.5).encode(x=x, y="quality_low:Q", y2="quality_high:Q"),
        base.mark_point(filled=True, size=80).encode(x=x, y=y, shape=shape, tooltip=tooltip).add_params(chosen),
        base.mark_text(align="left", dx=7, dy=-8, fontSize=11).encode(x=x, y=y, text="label:N"),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT + 80)
    return finish(chart, "Quality against cost")


BOUNDS = ("quality", "quality_low", "quality_high", "cost", "cost_low", "cost_high")


def _point(each: Audited, least: float) -> dict[str, Any]:
    kind = next(kind for prefix, (kind, _, _) in KINDS.items() if each.name.startswith(prefix))
    point: dict[str, Any] = {"policy": each.name, "kind": kind, "label": ""}
    if not each.name.startswith(MIX):
        point["label"] = each.name.removeprefix(ARM_PREFIX).removeprefix(BUDGET)
    for measure, estimate in each.values.items():
        low, high = estimate.fixed_n or (estimate.value, estimate.value)
        low = max(low, least) if measure == "cost" else low
        numbers = zip(("", "_low", "_high"), (estimate.value, low, high), strict=True)
        point |= {f"{measure}{suffix}": rounded(number) for suffix, number in numbers}
    return point


def _line(audit: RouterAudit) -> Iterator[dict[str, float | None]]:
    """The mixes of neighbours on the hull, as many points that are also right on a logarithmic axis."""
    corners = np.array([audit[name].point for name in audit.hull]).reshape(-1, 2)
    for left, right in pairwise(corners):
        for share in np.linspace(0.0, 1.0, LINE_POINTS) ** 2:
            cost, quality = (1.0 - share) * left + share * right
            yield {"cost": rounded(float(cost)), "quality": rounded(float(quality))}
