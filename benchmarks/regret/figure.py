"""The figure: a row for each problem, with regrets relative to the best tuned policy."""

from pathlib import Path
from typing import Any

import altair as alt

from benchmarks.regret.candidates import SUBJECT
from benchmarks.regret.problem import OTHERS, SEEN, STUCK, TABLES
from benchmarks.regret.results import ProblemResult
from benchmarks.regret.summary import Results
from glbandits.common.display.charts import finish, inline, save_chart, titled
from glbandits.common.display.palette import BLUE, GREEN, LIGHT_GREY, VERMILLION

TICKS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
OURS, DEFAULT, VOWPAL, OTHER = f"{SUBJECT} (95 %)", "best default", "best of Vowpal Wabbit", "other defaults"
STYLES = {
    OTHER: (LIGHT_GREY, "circle", 12),
    VOWPAL: (GREEN, "square", 25),
    DEFAULT: (VERMILLION, "diamond", 40),
    OURS: (BLUE, "circle", 55),
}
"""Colour, shape and size of the points, from the background to the foreground."""


def draw(results: Results, folder: Path) -> None:
    """Write regret.png, regret.svg and regret.pdf."""
    groups = [[r for r in results if r.problem.kind == kind] for kind in (TABLES, STUCK, OTHERS)]
    panels = [_panel(group) for group in groups if group]
    save_chart(finish(alt.vconcat(*panels).resolve_scale(x="shared")), folder, "regret")


def _panel(results: Results) -> Any:
    rows = [row for result in results for row in _rows(result)]
    scale = alt.Scale(type="log", nice=False, padding=10)
    title = "regret relative to the best tuned policy of the problem (less is better)"
    names, (colours, shapes, sizes) = [*STYLES], zip(*STYLES.values(), strict=True)
    legend = alt.Legend(orient="top", title=None)
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(values=TICKS, format="~g")),
        y=alt.Y("problem:N", title=None, sort=None, axis=alt.Axis(labelLimit=300, grid=True)),
        color=alt.Color("kind:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
    )
    points = base.mark_point(filled=True, opacity=1).encode(
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=names, range=shapes), legend=legend),
        size=alt.Size("kind:N", scale=alt.Scale(domain=names, range=sizes), legend=legend),
    )
    intervals = base.transform_filter(alt.datum.kind == OURS).mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    tuned = alt.Chart(inline([{"value": 1.0}])).mark_rule().encode(x="value:Q")
    chart = titled(alt.layer(tuned, intervals, points), results[0].problem.kind)
    return chart.properties(width=640, height=16 * len(results))


def _rows(result: ProblemResult) -> list[dict[str, Any]]:
    """Return the points of a problem, those of the background first."""

    def relative(policy: str) -> list[float]:
        return [result.relative(r, result.to_tuned) for r in result.results if r.policy == policy and not r.is_tuned]

    values = [(OTHER, result.relative(r, result.to_tuned)) for r in result.untuned if r.policy != SUBJECT]
    if result.to_vowpal is not None:
        values += [(VOWPAL, value) for value in relative(result.to_vowpal.reference.policy)]
    values += [(DEFAULT, value) for value in relative(result.to_untuned.reference.policy)]
    name = f"{result.problem.name}{' (dev)' if result.problem.role == SEEN else ''}"
    rows: list[dict[str, Any]] = [{"problem": name, "kind": kind, "value": value} for kind, value in values]
    low, high = result.to_tuned.interval
    return [*rows, {"problem": name, "kind": OURS, "value": result.to_tuned.value, "low": low, "high": high}]
