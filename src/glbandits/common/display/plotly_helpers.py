"""Plotly charts as plain dictionaries: the common layout, lines and confidence bands."""

import textwrap
from collections.abc import Iterable
from html import escape
from typing import Any, TypeAlias

import numpy as np
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from glbandits.common.display.curve import Curve
from glbandits.common.display.series_styles import SeriesStyle

Chart: TypeAlias = dict[str, Any]
"""A Plotly figure ("data" and "layout"), or a part of one."""

TITLE_WIDTH = 44
"""Characters in a line of a title: as many as fit on a phone."""
MARKERS_PER_LINE = 7
BUTTONS_HEIGHT = 30
"""Height of the row of buttons above the title, in pixels."""
SMALL = {"size": 12}
CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "showSendToCloud": False,  # otherwise a button would upload the chart to Plotly's server
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def plotly_script() -> str:
    """Return Plotly's JavaScript. A page contains it once."""
    script: str = get_plotlyjs()
    return script


def chart_html(chart: Chart, element_id: str) -> str:
    """Return a chart as HTML, for a page that contains Plotly's script."""
    html: str = to_html(chart, config=CONFIG, include_plotlyjs=False, full_html=False, div_id=element_id)
    return "\n".join(line.strip() for line in html.splitlines())


def base_layout(title: str, subtitle: str, extra_lines: Iterable[str] = ()) -> Chart:
    """Return a layout whose title fits on a phone.

    `extra_lines` follow the title, before the subtitle.
    """
    lines = [*textwrap.wrap(title, TITLE_WIDTH), *extra_lines]
    axis = {"gridcolor": "#e4e4e4", "zeroline": False, "linecolor": "#888888", "automargin": True}
    return {
        "title": {
            "text": "<br>".join(map(escape_text, lines)),
            "subtitle": {"text": escape_text(subtitle), "font": SMALL},
            "font": {"size": 15},
            "x": 0.02,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": BUTTONS_HEIGHT},
        },
        "font": {"family": FONT, "size": 13, "color": "#222222"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 20, "r": 28, "t": BUTTONS_HEIGHT + 36 + 20 * len(lines), "b": 20},
        "xaxis": axis | {"showgrid": False},
        "yaxis": axis,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top"},
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "#ffffff", "font": SMALL},
        "modebar": {"color": "#777777", "activecolor": "#222222"},
        "dragmode": False,  # a finger on a chart scrolls the page; a button turns zooming on
    }


def line_trace(curve: Curve, style: SeriesStyle, decimals: int) -> Chart:
    """Return the mean as a line with a few markers. The hover text includes the half-width."""
    spacing = max(1, len(curve.rounds) // MARKERS_PER_LINE)
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape_text(curve.legend_name),
        "legendgroup": escape_text(curve.label),
        "x": curve.rounds.tolist(),
        "y": six_digits(curve.mean),
        "line": {"color": style.colour, "dash": style.plotly_dash, "width": 1.25 * style.width},
        "marker": {
            "symbol": style.plotly_marker,
            "color": style.colour,
            "size": [8 if (index + spacing // 2) % spacing == 0 else 0 for index in range(len(curve.rounds))],
            "line": {"width": 0},
        },
        "hovertemplate": f"%{{y:.{decimals}f}}",
    }
    if curve.has_band:
        trace["customdata"] = six_digits(curve.half_width)
        trace["hovertemplate"] = f"%{{y:.{decimals}f}} ± %{{customdata:.{decimals}f}}"
    return trace


def band_trace(curve: Curve, style: SeriesStyle) -> Chart:
    """Return the confidence band as a filled outline."""
    low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate([curve.rounds, curve.rounds[::-1]]).tolist(),
        "y": six_digits(np.concatenate([low, high[::-1]])),
        "fill": "toself",
        "fillcolor": style.translucent_colour(0.14),
        "line": {"width": 0, "color": style.colour},
        "legendgroup": escape_text(curve.label),
        "showlegend": False,
        "hoverinfo": "skip",
    }


def escape_text(text: str) -> str:
    """Escape text for Plotly, which interprets some HTML in names and titles."""
    return escape(text, quote=False)


def six_digits(values: Iterable[float]) -> list[float]:
    """Round to six significant digits: more than a screen shows, and the page stays small."""
    return [float(f"{value:.6g}") for value in values]
