"""The charts of the evaluation page: estimates, weights, arms, and curves over rows."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.curve import Curve
from glbandits.common.display.displayed import percent
from glbandits.common.display.palette import GREY
from glbandits.common.display.plotly_helpers import (
    SMALL,
    Chart,
    band_trace,
    base_layout,
    escape_text,
    line_trace,
    six_digits,
)
from glbandits.common.display.series_styles import SeriesStyle, SeriesStyles
from glbandits.evaluation import ArmSupport, Evaluation
from glbandits.evaluation.estimators.intervals import UNKNOWN
from glbandits.evaluation.estimators.support import WEIGHT_EDGES
from glbandits.evaluation.policy_comparison import PolicyComparison
from glbandits.evaluation.replay.learning_curve import LearningCurve
from glbandits.evaluation.report.estimate_rows import estimate_rows, format_value, logged_interval

MAX_NAME_LENGTH = 18
"""Characters of an arm's name that fit below a bar."""
MAX_ARMS = 24
"""Arms that fit side by side."""
IGNORED_START = 20
"""The vertical axis ignores the first 1/20 of the rows, where a running mean is noisy."""


def forest_chart(comparison: PolicyComparison, styles: SeriesStyles) -> Chart:
    """Return each estimate with its interval: a block of rows for the log and each policy."""
    layout = base_layout("Mean reward of a decision", f"{percent(comparison.settings.level)} intervals")
    ticks: dict[int, str] = {}
    traces, headings, position = [], [], 0
    blocks = [("the log itself", GREY, _logged_rows(comparison))]
    blocks += [
        (policy.label, styles[policy.label].colour, _estimated_rows(policy.evaluation))
        for policy in comparison.policies
    ]
    for label, colour, rows in blocks:
        headings.append(_heading(label, colour, position))
        positions = range(position + 1, position + 1 + len(rows))
        ticks |= dict(zip(positions, (name for name, *_ in rows), strict=True))
        traces.append(_intervals(label, colour, positions, rows))
        position += 1 + len(rows)
    layout["yaxis"] |= {"tickvals": list(ticks), "ticktext": [escape_text(text) for text in ticks.values()]}
    layout["yaxis"] |= {"range": [position - 0.4, -0.6], "showgrid": False}
    layout["xaxis"] |= {"showgrid": True}
    layout |= {"annotations": headings, "showlegend": False, "hovermode": "closest"}
    layout["shapes"] = [_vertical_line(evaluation.logged) for evaluation in comparison.evaluation_by_first_row.values()]
    return {"data": traces, "layout": layout}


def forest_height(comparison: PolicyComparison) -> float:
    """Return the height of the chart in rem. Every row has the same height."""
    rows = (
        1
        + len(comparison.evaluation_by_first_row)
        + sum(1 + len(_estimated_rows(policy.evaluation)) for policy in comparison.policies)
    )
    return 8.5 + 1.7 * rows


def _logged_rows(comparison: PolicyComparison) -> list[tuple[str, float, float, float]]:
    evaluations = comparison.evaluation_by_first_row
    names = {first: "mean" if len(evaluations) == 1 else comparison.describe_rows(first) for first in evaluations}
    return [
        (names[first], evaluation.logged, *logged_interval(evaluation)) for first, evaluation in evaluations.items()
    ]


def _estimated_rows(evaluation: Evaluation) -> list[tuple[str, float, float, float]]:
    return [
        (f"{row.name}: no interval", row.value, *UNKNOWN)
        if isinstance(row.interval, str)
        else (row.name, row.value, *row.interval)
        for row in estimate_rows(evaluation)
    ]


def _heading(label: str, colour: str, position: int) -> Chart:
    return {
        "text": f"<b>{escape_text(label)}</b>",
        "font": {"color": colour},
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": position,
        "showarrow": False,
        "bgcolor": "rgba(255,255,255,0.85)",
    }


def _intervals(label: str, colour: str, positions: Sequence[int], rows: list[tuple[str, float, float, float]]) -> Chart:
    values, low, high = (np.array(column) for column in list(zip(*rows, strict=True))[1:])
    return {
        "type": "scatter",
        "mode": "markers",
        "name": escape_text(label),
        "x": six_digits(values),
        "y": list(positions),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": six_digits(np.nan_to_num(high - values)),  # the marker hides a bar of length 0
            "arrayminus": six_digits(np.nan_to_num(values - low)),
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": {
            "color": np.where(np.isnan(low), "white", colour).tolist(),
            "line": {"color": colour, "width": 2},
            "size": 9,
        },
        "text": [
            f"{escape_text(name)}: {format_value(value)}, {format_value(a)} to {format_value(b)}"
            for name, value, a, b in rows
        ],
        "hovertemplate": "%{text}",
    }


def _vertical_line(x: float) -> Chart:
    dotted = {"color": GREY, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": dotted, "layer": "below"}


def weights_chart(comparison: PolicyComparison, styles: SeriesStyles) -> Chart:
    """Return histograms of the weights on logarithmic scales, one for each policy."""
    layout = base_layout("Weights of the rows", "rows of weight 0 are left out")
    counts = {policy.label: policy.evaluation.support.weight_counts for policy in comparison.policies}
    used = np.flatnonzero(np.sum(list(counts.values()), axis=0))
    first, last = (int(used[0]), int(used[-1])) if len(used) else (0, 0)
    traces = [_histogram(label, styles[label], rows, slice(first, last + 1)) for label, rows in counts.items()]
    title = "weight: probability under the policy / in the log"
    layout["xaxis"] |= {"type": "log", "title": {"text": title, "font": SMALL}}
    layout["yaxis"] |= {"type": "log", "title": {"text": "rows", "font": SMALL}, "rangemode": "tozero"}
    layout["hovermode"] = "closest"
    return {"data": traces, "layout": layout}


def _histogram(label: str, style: SeriesStyle, counts: Ints, used: slice) -> Chart:
    """Return the outline of a histogram.

    The first and the last bin have the counts beyond the edges.
    """
    ratio = WEIGHT_EDGES[1] / WEIGHT_EDGES[0]
    edges = np.concatenate([WEIGHT_EDGES[:1] / ratio, WEIGHT_EDGES, WEIGHT_EDGES[-1:] * ratio])
    bins = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(WEIGHT_EDGES)]
    bins = [f"below {WEIGHT_EDGES[0]:.3g}", *bins, f"from {WEIGHT_EDGES[-1]:.3g} on"]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape_text(label),
        "legendgroup": escape_text(label),
        "x": six_digits(np.sqrt(edges[:-1] * edges[1:])[used]),
        "y": [int(count) or None for count in counts[used]],  # a logarithmic scale has no 0
        "line": {"color": style.colour, "dash": style.plotly_dash, "shape": "hvh", "width": 2},
        "marker": {"size": 5, "color": style.colour},
        "text": bins[used],
        "hovertemplate": "weight %{text}: %{y} rows",
    }


def arms_chart(comparison: PolicyComparison, supports: Mapping[str, ArmSupport], styles: SeriesStyles) -> Chart:
    """Return the shares of arms in the log and under each policy, and mean rewards below."""
    names = comparison.arm_names or ()
    shares = {label: support.wanted / support.wanted.sum() for label, support in supports.items()}
    log_support = next(iter(supports.values()))
    logged = log_support.logged / log_support.logged.sum()
    largest = np.argsort(-np.max([logged, *shares.values()], axis=0), kind="stable")[:MAX_ARMS]
    indices = np.sort(largest)
    arms = [escape_text(names[index]) for index in indices]
    bars = [("the log", GREY, logged), *((label, styles[label].colour, share) for label, share in shares.items())]
    traces = [_bar(label, colour, arms, share[indices]) for label, colour, share in bars]
    rewards = log_support.rewards[indices]
    traces.append(_bar("mean reward in the log", GREY, arms, rewards) | {"yaxis": "y2", "showlegend": False})
    selection = f"the {MAX_ARMS} arms of largest share, of {len(names)}" if len(names) > MAX_ARMS else "all arms"
    layout = base_layout(
        "Arms in the log and under each policy", f"{selection}; above: share of decisions, below: mean reward"
    )
    layout["yaxis"] |= {"domain": [0.4, 1], "tickformat": ".0%", "title": {"text": "share", "font": SMALL}}
    layout["yaxis2"] = layout["yaxis"] | {"domain": [0, 0.3], "title": {"text": "reward", "font": SMALL}}
    layout["yaxis2"]["tickformat"] = ".3~g"
    layout["xaxis"] |= {"anchor": "y2", "type": "category", "tickvals": arms}
    layout["xaxis"]["ticktext"] = [escape_text(_shorten(names[index])) for index in indices]
    layout |= {"barmode": "group", "bargap": 0.2}
    return {"data": traces, "layout": layout}


def _bar(label: str, colour: str, arms: list[str], heights: Floats) -> Chart:
    return {
        "type": "bar",
        "name": escape_text(label),
        "legendgroup": escape_text(label),
        "x": arms,
        "y": six_digits(heights),
        "marker": {"color": colour},
        "hovertemplate": "%{y}",
    }


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def running_chart(comparison: PolicyComparison, estimator: str, styles: SeriesStyles) -> Chart:
    """Return each estimate from the rows up to a row, over the rows."""
    shown = [
        _known_points(
            Curve(policy.label, policy.first_row + policy.evaluation.at_rows, running, np.full(len(running), np.nan))
        )
        for policy in comparison.policies
        for running in (policy.evaluation[estimator].running,)
    ]
    layout = base_layout(f"{estimator}: the estimate over the rows", "dotted: the mean reward of the log")
    return _over_rows(comparison, shown, styles, layout)


def learning_chart(comparison: PolicyComparison, curves: Mapping[str, LearningCurve], styles: SeriesStyles) -> Chart:
    """Return the mean reward of policies while they learn, with bands."""
    quantile = float(ndtri(0.5 + comparison.settings.level / 2))
    shown = [
        _known_points(Curve(label, curve.at_events, curve.at_values, quantile * curve.at_standard_errors))
        for label, curve in curves.items()
    ]
    subtitle = f"mean reward so far, band: {percent(comparison.settings.level)}; dotted: the log"
    return _over_rows(comparison, shown, styles, base_layout("While learning, over the whole log", subtitle))


def _known_points(curve: Curve) -> Curve:
    """Return the curve without points that are not finite."""
    known = np.isfinite(curve.mean)
    if np.isfinite(curve.half_width).any():
        known &= np.isfinite(curve.half_width)
    return Curve(curve.label, curve.rounds[known], curve.mean[known], curve.half_width[known])


def _over_rows(comparison: PolicyComparison, shown: Sequence[Curve], styles: SeriesStyles, layout: Chart) -> Chart:
    bands = [band_trace(curve, styles[curve.label]) for curve in shown if len(curve.rounds) and curve.has_band]
    lines = [line_trace(curve, styles[curve.label], decimals=5) for curve in shown]
    layout["xaxis"] |= {"title": {"text": "row of the log", "font": SMALL}}
    layout["yaxis"] |= {"title": {"text": "mean reward", "font": SMALL}}
    value_range = _value_range([curve for curve in shown if len(curve.rounds)])
    if value_range is not None:
        layout["yaxis"]["range"] = six_digits(value_range)
    logged = comparison.evaluation_by_first_row[min(comparison.evaluation_by_first_row)].logged
    horizontal = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": logged, "y1": logged}
    layout["shapes"] = [horizontal | {"line": {"color": GREY, "width": 1.5, "dash": "dot"}, "layer": "below"}]
    return {"data": bands + lines, "layout": layout}


def _value_range(shown: Sequence[Curve]) -> tuple[float, float] | None:
    """Return the range of the vertical axis, without the noisy first rows.

    Returns None if there are no points.
    """
    low, high = [], []
    for curve in shown:
        late = curve.rounds >= curve.rounds[0] + (curve.rounds[-1] - curve.rounds[0]) / IGNORED_START
        half_width = np.nan_to_num(curve.half_width)
        low.append((curve.mean - half_width)[late].min())
        high.append((curve.mean + half_width)[late].max())
    if not low:
        return None
    margin = 0.05 * (max(high) - min(low)) or 1.0
    return float(min(low) - margin), float(max(high) + margin)
