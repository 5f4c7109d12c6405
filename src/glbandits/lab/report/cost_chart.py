"""The cost figure: CPU time and memory of a run against T and d, on logarithmic axes."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import altair as alt

from glbandits.common.display.charts import SeriesStyles, finish, inline, rounded, series_encodings
from glbandits.lab.paper.cost import AXES, Axis, CostCurve, CostPoint, CostTable

YEAR = 365.25 * 86_400
TIMES = {
    1e-6: "1 µs",
    1e-5: "10 µs",
    1e-4: "0.1 ms",
    1e-3: "1 ms",
    1e-2: "10 ms",
    0.1: "0.1 s",
    1.0: "1 s",
    10.0: "10 s",
    60.0: "1 min",
    3600.0: "1 h",
    86_400.0: "1 day",
    30.0 * 86_400: "1 month",
    YEAR: "1 year",
    100 * YEAR: "100 years",
}
"""Tick labels of the time axis, by seconds."""
UNITS = ("B", "kB", "MB", "GB", "TB")
BYTES = {10.0**k: f"{10 ** (k % 3)} {UNITS[k // 3]}" for k in range(15)}
"""Tick labels of the memory axis, by bytes."""
EXTRAPOLATED = [1, 3]
"""Dashes of extrapolated lines."""


class Quantity(NamedTuple):
    """A quantity that a column of the figure shows."""

    title: str
    value: Callable[[CostPoint], float]
    slope: Callable[[CostCurve], float]
    ticks: dict[float, str]


QUANTITIES = (
    Quantity("CPU time of a run", lambda point: point.seconds, lambda curve: curve.time_slope, TIMES),
    Quantity("Memory: the state after a run", lambda point: point.state_bytes, lambda curve: curve.memory_slope, BYTES),
)


def cost_figure(table: CostTable, styles: SeriesStyles) -> Any:
    """Return four panels: rows T and d, columns CPU time and memory. Each column shares a scale.

    If a curve stopped at the time budget, a thin dotted line extrapolates it to the largest size by its exponent.
    """
    styles = {curve.policy: styles[curve.policy] for curve in table.curves}
    panels = [_panel(table, axis, quantity, styles) for axis in AXES for quantity in QUANTITIES]
    title = f"Cost of a run. A line of slope p means growth like size^p{'; quick, small sizes' * table.quick}"
    budget = f"dotted: not measured, because a run would exceed {table.budget_seconds:g} s; extrapolated along the fit"
    is_dotted = any(map(table.ended_early, table.curves))
    return finish(alt.concat(*panels, columns=len(QUANTITIES)), title, budget if is_dotted else "", wrap=100)


def _panel(table: CostTable, axis: Axis, quantity: Quantity, styles: SeriesStyles) -> alt.LayerChart:
    rows, ends, limits = [], [], _value_range(table, quantity)
    for curve in table.curves:
        if curve.axis == axis:
            points: list[dict[str, Any]] = [
                {"series": curve.policy, "size": point.size, "value": rounded(quantity.value(point))}
                for point in curve.points
            ]
            rows += points
            if table.ended_early(curve):
                end = {"size": table.sizes(axis)[-1], "value": rounded(_end(table, curve, quantity))}
                ends += [points[-1], points[-1] | end]
    setup = {
        "T": f"against T, the number of rounds (K={table.t_arms}, d={table.t_dim})",
        "d": f"against d, the number of features (K={table.d_arms}, {table.d_rounds} rounds)",
    }
    colour, dash, shape = series_encodings(styles, len(styles))
    scale = alt.Scale(type="log", domain=[*limits], nice=False)
    labels = f"{json.dumps([*quantity.ticks.values()])}[indexof({json.dumps([*quantity.ticks])}, datum.value)]"
    y_axis = alt.Axis(values=[tick for tick in quantity.ticks if limits[0] <= tick <= limits[1]], labelExpr=labels)
    x = alt.X("size:Q", title=axis, scale=alt.Scale(type="log", nice=False), axis=alt.Axis(format="~s", tickCount=6))
    encoding = {"x": x, "y": alt.Y("value:Q", title=None, scale=scale, axis=y_axis), "color": colour}
    base = alt.Chart(inline(rows)).encode(**encoding)
    extrapolated = alt.Chart(inline(ends)).encode(**encoding).mark_line(strokeDash=EXTRAPOLATED, strokeWidth=1.2)
    return alt.layer(
        base.mark_line().encode(strokeDash=dash),
        base.mark_point(filled=True, size=45, opacity=1).encode(shape=shape),
        extrapolated,
    ).properties(width=400, height=280, title=alt.TitleParams(quantity.title, subtitle=setup[axis]))


def _value_range(table: CostTable, quantity: Quantity) -> tuple[float, float]:
    """Return the range of a quantity over all curves, with some space."""
    values = [quantity.value(point) for curve in table.curves for point in curve.points]
    values += [_end(table, curve, quantity) for curve in table.curves if table.ended_early(curve)]
    return 0.6 * min(values), 1.7 * max(values)


def _end(table: CostTable, curve: CostCurve, quantity: Quantity) -> float:
    """Return the extrapolated value at the largest size."""
    last, largest = curve.points[-1], table.sizes(curve.axis)[-1]
    return float(quantity.value(last) * (largest / last.size) ** quantity.slope(curve))
