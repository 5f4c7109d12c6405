"""The charts of the page: estimates with intervals, weights, arms, and how all of it came about over the rows."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from glbandits.evaluation import ArmSupport, Evaluation
from glbandits.evaluation.intervals import UNKNOWN
from glbandits.evaluation.learning_curve import LearningCurve
from glbandits.evaluation.support import WEIGHT_EDGES
from glbandits.experiments.evaluation_report.numbers import answers, logged_interval, shown
from glbandits.experiments.log_study import LogStudy
from glbandits.experiments.report.chart_data import Curve
from glbandits.experiments.report.plotly_helpers import SMALL, Chart, band, base_layout, line, plain, short
from glbandits.experiments.report.series_styles import SeriesStyle, SeriesStyles
from glbandits.records import Floats, Ints

GREY = "#666666"
"""The colour of the log's own policy."""
LONGEST_NAME = 18
"""Letters of an arm's name that fit below a bar."""
MOST_ARMS = 24
"""Arms that fit side by side."""
SETTLED = 20
"""A running mean is shown whole from this part of the rows on."""


def forest_chart(study: LogStudy, styles: SeriesStyles) -> Chart:
    """Each estimate with its interval: a block of rows for the log itself, and one for each policy."""
    layout = base_layout("Mean reward of a decision", f"{study.questions.level:.0%} intervals")
    ticks: dict[int, str] = {}
    traces, notes, place = [], [], 0
    blocks = [("the log itself", GREY, _logged_rows(study))]
    blocks += [(one.label, styles[one.label].colour, _estimated_rows(one.evaluation)) for one in study.judged]
    for label, colour, rows in blocks:
        notes.append(_heading(label, colour, place))
        places = range(place + 1, place + 1 + len(rows))
        ticks |= dict(zip(places, (name for name, *_ in rows), strict=True))
        traces.append(_intervals(label, colour, places, rows))
        place += 1 + len(rows)
    layout["yaxis"] |= {"tickvals": list(ticks), "ticktext": [plain(text) for text in ticks.values()]}
    layout["yaxis"] |= {"range": [place - 0.4, -0.6], "showgrid": False}
    layout["xaxis"] |= {"showgrid": True}
    layout |= {"annotations": notes, "showlegend": False, "hovermode": "closest"}
    layout["shapes"] = [_upright(evaluation.logged) for evaluation in study.parts.values()]
    return {"data": traces, "layout": layout}


def forest_height(study: LogStudy) -> float:
    """Of the chart, in rem: the same for every row."""
    rows = 1 + len(study.parts) + sum(1 + len(_estimated_rows(one.evaluation)) for one in study.judged)
    return 8.5 + 1.7 * rows


def _logged_rows(study: LogStudy) -> list[tuple[str, float, float, float]]:
    words = {first: "mean" if len(study.parts) == 1 else study.rows_in_words(first) for first in study.parts}
    return [(words[first], part.logged, *logged_interval(part)) for first, part in study.parts.items()]


def _estimated_rows(evaluation: Evaluation) -> list[tuple[str, float, float, float]]:
    return [
        (one.name, one.value, *(UNKNOWN if isinstance(one.interval, str) else one.interval))
        for one in answers(evaluation)
    ]


def _heading(label: str, colour: str, place: int) -> Chart:
    return {
        "text": f"<b>{plain(label)}</b>",
        "font": {"color": colour},
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": place,
        "showarrow": False,
        "bgcolor": "rgba(255,255,255,0.85)",
    }


def _intervals(label: str, colour: str, places: Sequence[int], rows: list[tuple[str, float, float, float]]) -> Chart:
    values, low, high = (np.array(column) for column in list(zip(*rows, strict=True))[1:])
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(label),
        "x": short(values),
        "y": list(places),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": short(np.nan_to_num(high - values)),  # no bar where there is no interval
            "arrayminus": short(np.nan_to_num(values - low)),
            "thickness": 2,
            "width": 5,
        },
        "marker": {"color": colour, "size": 9},
        "text": [f"{plain(name)}: {shown(value)}, {shown(a)} to {shown(b)}" for name, value, a, b in rows],
        "hovertemplate": "%{text}",
    }


def _upright(x: float) -> Chart:
    dotted = {"color": GREY, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": dotted, "layer": "below"}


def weights_chart(study: LogStudy, styles: SeriesStyles) -> Chart:
    """How many rows have which weight, on two logarithmic scales."""
    layout = base_layout("Weights of the rows", "rows of weight 0 are left out")
    counts = {one.label: one.evaluation.support.weight_counts for one in study.judged}
    used = np.flatnonzero(np.sum(list(counts.values()), axis=0))
    first, last = (int(used[0]), int(used[-1])) if len(used) else (0, 0)
    traces = [_steps(label, styles[label], many, slice(first, last + 1)) for label, many in counts.items()]
    title = "weight: probability under the policy / in the log"
    layout["xaxis"] |= {"type": "log", "title": {"text": title, "font": SMALL}}
    layout["yaxis"] |= {"type": "log", "title": {"text": "rows", "font": SMALL}, "rangemode": "tozero"}
    layout["hovermode"] = "closest"
    return {"data": traces, "layout": layout}


def _steps(label: str, style: SeriesStyle, counts: Ints, used: slice) -> Chart:
    """The outline of a histogram: flat from edge to edge. What is beyond the last edges stands next to them."""
    apart = WEIGHT_EDGES[1] / WEIGHT_EDGES[0]
    edges = np.concatenate([WEIGHT_EDGES[:1] / apart, WEIGHT_EDGES, WEIGHT_EDGES[-1:] * apart])
    words = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(WEIGHT_EDGES)]
    words = [f"below {WEIGHT_EDGES[0]:.3g}", *words, f"from {WEIGHT_EDGES[-1]:.3g} on"]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(label),
        "legendgroup": plain(label),
        "x": short(np.sqrt(edges[:-1] * edges[1:])[used]),
        "y": [int(count) or None for count in counts[used]],  # 0 has no place on a logarithmic scale
        "line": {"color": style.colour, "dash": style.plotly_dash, "shape": "hvh", "width": 2},
        "marker": {"size": 5, "color": style.colour},
        "text": words[used],
        "hovertemplate": "weight %{text}: %{y} rows",
    }


def arms_chart(study: LogStudy, supports: Mapping[str, ArmSupport], styles: SeriesStyles) -> Chart:
    """What the log did and each policy would do, arm by arm, and below what the arms earned in the log."""
    names = study.arm_names or ()
    shares = {label: support.wanted / support.wanted.sum() for label, support in supports.items()}
    base = next(iter(supports.values()))
    logged = base.logged / base.logged.sum()
    asked = np.argsort(-np.max([logged, *shares.values()], axis=0), kind="stable")[:MOST_ARMS]
    places = np.sort(asked)
    arms = [plain(names[place]) for place in places]
    bars = [("the log", GREY, logged), *((label, styles[label].colour, share) for label, share in shares.items())]
    traces = [_bar(label, colour, arms, share[places]) for label, colour, share in bars]
    earned = base.rewards[places]
    traces.append(_bar("mean reward in the log", GREY, arms, earned) | {"yaxis": "y2", "showlegend": False})
    few = f"the {MOST_ARMS} most wanted of {len(names)}" if len(names) > MOST_ARMS else "all arms"
    layout = base_layout("What was done, and what would be", f"{few}; above: share of decisions, below: mean reward")
    layout["yaxis"] |= {"domain": [0.4, 1], "tickformat": ".0%", "title": {"text": "share", "font": SMALL}}
    layout["yaxis2"] = layout["yaxis"] | {"domain": [0, 0.3], "title": {"text": "reward", "font": SMALL}}
    layout["yaxis2"]["tickformat"] = ".3~g"
    layout["xaxis"] |= {"anchor": "y2", "type": "category", "tickvals": arms}
    layout["xaxis"]["ticktext"] = [plain(_cut(names[place])) for place in places]
    layout |= {"barmode": "group", "bargap": 0.2}
    return {"data": traces, "layout": layout}


def _bar(label: str, colour: str, arms: list[str], heights: Floats) -> Chart:
    return {
        "type": "bar",
        "name": plain(label),
        "legendgroup": plain(label),
        "x": arms,
        "y": short(heights),
        "marker": {"color": colour},
        "hovertemplate": "%{y}",
    }


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def running_chart(study: LogStudy, estimator: str, styles: SeriesStyles) -> Chart:
    """The estimate from the first rows alone, as rows were added."""
    drawn = [
        _settled(Curve(one.label, one.first_row + one.evaluation.at_rows, running, np.full(len(running), np.nan)))
        for one in study.judged
        for running in (one.evaluation[estimator].running,)
    ]
    layout = base_layout(f"{estimator}: the estimate as rows came", "dotted: the mean reward of the log")
    return _over_rows(study, drawn, styles, layout)


def learning_chart(study: LogStudy, curves: Mapping[str, LearningCurve], styles: SeriesStyles) -> Chart:
    """What policies would have earned while learning."""
    reach = float(ndtri(0.5 + study.questions.level / 2))
    drawn = [
        _settled(Curve(label, curve.at_events, curve.at_values, reach * curve.at_standard_errors))
        for label, curve in curves.items()
    ]
    under = f"mean reward so far, band: {study.questions.level:.0%}; dotted: the log"
    return _over_rows(study, drawn, styles, base_layout("While learning, over the whole log", under))


def _settled(curve: Curve) -> Curve:
    """Without the places where nothing can be said yet."""
    known = np.isfinite(curve.mean)
    if np.isfinite(curve.half_width).any():
        known &= np.isfinite(curve.half_width)
    return Curve(curve.label, curve.rounds[known], curve.mean[known], curve.half_width[known])


def _over_rows(study: LogStudy, drawn: Sequence[Curve], styles: SeriesStyles, layout: Chart) -> Chart:
    bands = [band(curve, styles[curve.label]) for curve in drawn if len(curve.rounds) and curve.has_band]
    lines = [line(curve, styles[curve.label], decimals=5) for curve in drawn]
    layout["xaxis"] |= {"title": {"text": "row of the log", "font": SMALL}}
    layout["yaxis"] |= {"title": {"text": "mean reward", "font": SMALL}}
    window = _window([curve for curve in drawn if len(curve.rounds)])
    if window is not None:
        layout["yaxis"]["range"] = short(window)
    logged = study.parts[min(study.parts)].logged
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": logged, "y1": logged}
    layout["shapes"] = [across | {"line": {"color": GREY, "width": 1.5, "dash": "dot"}, "layer": "below"}]
    return {"data": bands + lines, "layout": layout}


def _window(drawn: Sequence[Curve]) -> tuple[float, float] | None:
    """Where the vertical axis begins and ends: the first rows are too wild to be drawn whole."""
    low, high = [], []
    for curve in drawn:
        late = curve.rounds >= curve.rounds[0] + (curve.rounds[-1] - curve.rounds[0]) / SETTLED
        width = np.nan_to_num(curve.half_width)
        low.append((curve.mean - width)[late].min())
        high.append((curve.mean + width)[late].max())
    if not low:
        return None
    room = 0.05 * (max(high) - min(low)) or 1.0
    return float(min(low) - room), float(max(high) + room)
