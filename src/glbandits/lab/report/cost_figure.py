"""The cost figure: CPU time and memory of a run against T and d, on logarithmic axes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from glbandits.common.display.series_styles import SeriesStyles
from glbandits.lab.paper.cost import AXES, CostCurve, CostPoint, CostTable
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK
from glbandits.policies.algorithms.optimist import Optimist

EXTRAPOLATED = (0.0, (1.0, 2.5))
"""The dash pattern of extrapolated lines."""
LABEL_GAP = 0.075
"""Minimum distance between two labels, as a fraction of the panel's height."""
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
    365.25 * 86_400: "1 year",
    100 * 365.25 * 86_400: "100 years",
}
"""Tick labels of the time axis, by seconds."""
UNITS = ("B", "kB", "MB", "GB", "TB")
BYTES = {10.0**k: f"{10 ** (k % 3)} {UNITS[k // 3]}" for k in range(15)}
"""Tick labels of the memory axis, by bytes."""


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


def cost_figure(table: CostTable, styles: SeriesStyles) -> Figure:
    """Draw four panels: rows T and d, columns CPU time and memory. Each column shares a scale.

    If a curve stopped at the time budget, a thin dotted line extrapolates it to the largest size by its exponent.
    Each policy has its own colour, dash and marker.
    """
    figure = Figure(figsize=(12, 8.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(AXES), len(QUANTITIES), sharex="row", sharey="col")
    names = list(dict.fromkeys(curve.policy for curve in table.curves))
    setups = {
        "T": f"against T, the number of rounds (K={table.t_arms}, d={table.t_dim})",
        "d": f"against d, the number of features (K={table.d_arms}, {table.d_rounds} rounds)",
    }
    ends: dict[Axes, list[tuple[CostCurve, float]]] = {}
    for row, axis in zip(panels, AXES, strict=True):
        for axes, quantity in zip(row, QUANTITIES, strict=True):
            axes.set_title(f"{quantity.title}\n{setups[axis]}", loc="left", fontsize=11)
            ends[axes] = [
                (curve, _draw_curve(axes, table, curve, quantity, styles))
                for curve in table.curves
                if curve.axis == axis
            ]
            axes.set_xlabel(axis)
    for column, quantity in zip(panels.T, QUANTITIES, strict=True):
        for axes in column:
            _set_scales(axes, quantity.ticks)
        for axes in column:
            _label_ends(axes, ends[axes], quantity, styles)
    if Optimist.name in names:
        note = f"{Optimist.name}: a d x d matrix up to d={LARGEST_BLOCK}, blocks of it beyond"
        panels[-1, -1].text(0.99, 0.02, note, ha="right", fontsize=9, color="0.35", transform=panels[-1, -1].transAxes)
    handles = [
        Line2D(
            [],
            [],
            color=styles[name].colour,
            linestyle=styles[name].matplotlib_dash,
            marker=styles[name].marker,
            markerfacecolor="white",
        )
        for name in names
    ]
    labels = list(names)
    if any(table.ended_early(curve) for curve in table.curves):
        handles.append(Line2D([], [], color="0.3", linestyle=EXTRAPOLATED, linewidth=1.2))
        labels.append(f"not measured: a run would exceed {table.budget_seconds:g} s; extrapolated along the fit")
    figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), frameon=False, handlelength=4)
    figure.suptitle(
        "Cost of a run. Compare the slopes: on these axes a line of slope p means growth like $T^p$ or $d^p$.\n"
        "The labels give the fitted p (least squares, upper half of the measured sizes)"
        f"{'; quick measurement, small sizes' * table.quick}.",
        fontsize=12,
        x=0.01,
        ha="left",
    )
    return figure


def _draw_curve(axes: Axes, table: CostTable, curve: CostCurve, quantity: Quantity, styles: SeriesStyles) -> float:
    """Draw the measured points and the extrapolation, if there is one.

    Return the value at the right end.
    """
    style, last = styles[curve.policy], curve.points[-1]
    sizes, values = [point.size for point in curve.points], [quantity.value(point) for point in curve.points]
    axes.plot(
        sizes,
        values,
        color=style.colour,
        linestyle=style.matplotlib_dash,
        marker=style.marker,
        markersize=5.5,
        markerfacecolor="white",
        zorder=3,
    )
    if not table.ended_early(curve):
        return values[-1]
    largest = table.sizes(curve.axis)[-1]
    end = values[-1] * (largest / last.size) ** quantity.slope(curve)
    axes.plot([last.size, largest], [values[-1], end], color=style.colour, linestyle=EXTRAPOLATED, linewidth=1.2)
    return float(end)


def _set_scales(axes: Axes, ticks: dict[float, str]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    visible = [value for value in ticks if low <= value <= high]
    axes.yaxis.set_major_locator(FixedLocator(visible))
    axes.yaxis.set_major_formatter(lambda value, _: ticks.get(value, ""))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_tick_params(labelleft=True)
    axes.xaxis.set_major_locator(LogLocator(numticks=20))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _label_ends(axes: Axes, ends: Sequence[tuple[CostCurve, float]], quantity: Quantity, styles: SeriesStyles) -> None:
    """Write each policy and its exponent next to the right end of its line."""
    low, high = np.log(axes.get_ylim())
    for (curve, _), height in zip(
        ends, separate([(float(np.log(end)) - low) / (high - low) for _, end in ends], LABEL_GAP), strict=True
    ):
        exponent = round(quantity.slope(curve), 2) + 0.0  # no minus sign on zero
        axes.annotate(
            f"{curve.policy}: ${curve.axis}^{{{exponent:.2f}}}$",
            (1.0, height),
            xytext=(4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            color=styles[curve.policy].colour,
            va="center",
            fontsize=10,
        )


def separate(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights apart as little as needed so that any two differ by at least the gap.

    >>> separate([0.5, 0.1, 0.5], 0.1)
    [0.45, 0.1, 0.55]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[tuple[float, int]] = []
    """Centre and size of groups of adjacent labels, from the bottom up."""
    for i in order:
        centre, size = heights[i], 1
        while groups and centre - groups[-1][0] < gap * (size + groups[-1][1]) / 2:
            below, count = groups.pop()
            centre, size = (centre * size + below * count) / (size + count), size + count
        groups.append((centre, size))
    placed = [centre + gap * (k - (size - 1) / 2) for centre, size in groups for k in range(size)]
    return [round(height, 6) for _, height in sorted(zip(order, placed, strict=True))]
