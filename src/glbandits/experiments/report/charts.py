"""Interactive charts: figures as plain data, which Plotly's script draws in the page."""

import textwrap
from collections.abc import Iterable
from html import escape
from typing import Any, TypeAlias

import numpy as np
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from glbandits.experiments.protocols import ProtocolResult
from glbandits.experiments.report.drawn import (
    SIMULATED,
    Curve,
    best_pulls,
    curves,
    measure_in_words,
    spread_in_words,
    title_of,
    value_range,
)
from glbandits.experiments.report.looks import Look, Looks
from glbandits.experiments.results import ExperimentResult

Chart: TypeAlias = dict[str, Any]

TITLE_WIDTH = 44
"""Letters in a line of a title: what fits on a phone."""
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


def curves_chart(result: ExperimentResult, protocol: ProtocolResult, looks: Looks) -> Chart:
    """The curves with their bands; a click on a name hides both."""
    experiment = result.experiment
    decimals = 1 if experiment.measure == "regret" else 4
    drawn = curves(experiment, protocol)
    bands = [_band(curve, looks[curve.label]) for curve in drawn if curve.has_band]  # below all lines
    lines = [_line(curve, looks[curve.label], decimals) for curve in drawn]
    title = f"{experiment.name}: {title_of(result, protocol)}"
    layout = _layout(result, title, spread_in_words(protocol))
    layout["xaxis"] |= {"title": {"text": "round", "font": SMALL}, "range": [0, experiment.horizon]}
    layout["yaxis"] |= {"title": {"text": measure_in_words(experiment), "font": SMALL}}
    layout["yaxis"]["range"] = _short(value_range(experiment, drawn))
    return {"data": bands + lines, "layout": layout}


def pulls_chart(result: ExperimentResult, protocol: ProtocolResult, looks: Looks) -> Chart:
    """The median pulls of the best arms, as bars."""
    experiment = result.experiment
    pulls = best_pulls(experiment, protocol.outcomes)
    traces = [
        {
            "type": "bar",
            "name": _plain(label),
            "legendgroup": _plain(label),  # makes names flow in lines, not stand in columns
            "x": [_plain(arm).replace(" (", "<br>(") for arm in pulls.arms],
            "y": medians.tolist(),
            "marker": {"color": looks[label].colour},
            "hovertemplate": "%{y:.0f} pulls",
        }
        for label, medians in pulls.medians.items()
    ]
    seeds = len(protocol.outcomes[0].seeds)
    under = f"pulls of the {experiment.best_arms} best arms, median of {seeds} seed{'s' * (seeds > 1)}"
    layout = _layout(result, f"{experiment.name}: {title_of(result, protocol)}", under)
    layout["yaxis"]["title"] = {"text": "median pulls", "font": SMALL}
    layout |= {"barmode": "group", "bargap": 0.15}
    return {"data": traces, "layout": layout}


def _line(curve: Curve, look: Look, decimals: int) -> Chart:
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": _plain(curve.label),
        "legendgroup": _plain(curve.label),
        "x": curve.rounds.tolist(),
        "y": _short(curve.mean),
        "line": {"color": look.colour, "dash": look.plotly_dash, "width": 2},
        "hovertemplate": f"%{{y:.{decimals}f}}",
    }
    if curve.has_band:
        line["customdata"] = _short(curve.half_width)
        line["hovertemplate"] = f"%{{y:.{decimals}f}} ± %{{customdata:.{decimals}f}}"
    return line


def _band(curve: Curve, look: Look) -> Chart:
    """The outline of the band: to the right along its lower edge, and back along the upper one."""
    there, back = curve.rounds, curve.rounds[::-1]
    low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate([there, back]).tolist(),
        "y": _short(np.concatenate([low, high[::-1]])),
        "fill": "toself",
        "fillcolor": look.faint(0.14),
        "line": {"width": 0, "color": look.colour},
        "legendgroup": _plain(curve.label),
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _layout(result: ExperimentResult, title: str, under: str) -> Chart:
    lines = textwrap.wrap(title, TITLE_WIDTH) + [SIMULATED] * result.simulated_data
    axis = {"gridcolor": "#e4e4e4", "zeroline": False, "linecolor": "#888888", "automargin": True}
    return {
        "title": {
            "text": "<br>".join(map(_plain, lines)),
            "subtitle": {"text": _plain(under), "font": SMALL},
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


def _plain(text: str) -> str:
    """Text for Plotly, which reads some HTML in names and titles."""
    return escape(text, quote=False)


def _short(numbers: Iterable[float]) -> list[float]:
    """Six digits are more than a screen shows, and keep the page small."""
    return [float(f"{number:.6g}") for number in numbers]
