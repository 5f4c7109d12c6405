"""What all charts share: how they are put in a page, and their layout."""

import textwrap
from collections.abc import Iterable
from html import escape
from typing import Any, TypeAlias

import numpy as np
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from glbandits.experiments.report.chart_data import Curve, series_name
from glbandits.experiments.report.series_styles import SeriesStyle

Chart: TypeAlias = dict[str, Any]

TITLE_WIDTH = 44
"""Letters in a line of a title: what fits on a phone."""
MARKERS_A_LINE = 7
BUTTONS = 30
"""Height of the row of buttons above the title."""
SMALL = {"size": 12}
CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "showSendToCloud": False,  # or a button of Plotly's would send the chart to its makers' server
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def plotly_script() -> str:
    """Plotly's own script, to be put in the page once."""
    script: str = get_plotlyjs()
    return script


def draw(chart: Chart, name: str) -> str:
    """A chart as HTML, for a page that holds Plotly's script. The name is its id."""
    markup: str = to_html(chart, config=CONFIG, include_plotlyjs=False, full_html=False, div_id=name)
    return "\n".join(line.strip() for line in markup.splitlines())


def base_layout(title: str, under: str, more: Iterable[str] = ()) -> Chart:
    """A chart with a title that fits on a phone, more lines below it, and a line of small print."""
    lines = [*textwrap.wrap(title, TITLE_WIDTH), *more]
    axis = {"gridcolor": "#e4e4e4", "zeroline": False, "linecolor": "#888888", "automargin": True}
    return {
        "title": {
            "text": "<br>".join(map(plain, lines)),
            "subtitle": {"text": plain(under), "font": SMALL},
            "font": {"size": 15},
            "x": 0.02,
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": BUTTONS},
        },
        "font": {"family": FONT, "size": 13, "color": "#222222"},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 20, "r": 28, "t": BUTTONS + 36 + 20 * len(lines), "b": 20},
        "xaxis": axis | {"showgrid": False},
        "yaxis": axis,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top"},
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "#ffffff", "font": SMALL},
        "modebar": {"color": "#777777", "activecolor": "#222222"},
        "dragmode": False,  # a finger on a chart scrolls the page; a button turns zooming on
    }


def line(curve: Curve, style: SeriesStyle, decimals: int) -> Chart:
    """The mean, with a few markers; the hover text shows the width of its band too."""
    apart = max(1, len(curve.rounds) // MARKERS_A_LINE)
    name = plain(series_name(curve.label, curve.is_extra))
    drawn = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "legendgroup": plain(curve.label),
        "x": curve.rounds.tolist(),
        "y": short(curve.mean),
        "line": {"color": style.colour, "dash": style.plotly_dash, "width": 1.25 * style.width},
        "marker": {
            "symbol": style.plotly_marker,
            "color": style.colour,
            "size": [8 if (index + apart // 2) % apart == 0 else 0 for index in range(len(curve.rounds))],
            "line": {"width": 0},
        },
        "hovertemplate": f"%{{y:.{decimals}f}}",
    }
    if curve.has_band:
        drawn["customdata"] = short(curve.half_width)
        drawn["hovertemplate"] = f"%{{y:.{decimals}f}} ± %{{customdata:.{decimals}f}}"
    return drawn


def band(curve: Curve, style: SeriesStyle) -> Chart:
    """The outline of the band: to the right along its lower edge, and back along the upper one."""
    there, back = curve.rounds, curve.rounds[::-1]
    low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate([there, back]).tolist(),
        "y": short(np.concatenate([low, high[::-1]])),
        "fill": "toself",
        "fillcolor": style.faint(0.14),
        "line": {"width": 0, "color": style.colour},
        "legendgroup": plain(curve.label),
        "showlegend": False,
        "hoverinfo": "skip",
    }


def plain(text: str) -> str:
    """Text for Plotly, which reads some HTML in names and titles."""
    return escape(text, quote=False)


def short(numbers: Iterable[float]) -> list[float]:
    """Six digits are more than a screen shows, and keep the page small."""
    return [float(f"{number:.6g}") for number in numbers]
