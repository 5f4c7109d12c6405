"""The charts of the evaluation page: estimates, weights, arms, and curves over rows."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
from scipy.special import ndtri

from glbandits.common.display.charts import (
    HEIGHT,
    TICKS,
    WIDTH,
    Curve,
    IntervalRow,
    SeriesStyle,
    SeriesStyles,
    curves_chart,
    finish,
    inline,
    intervals_chart,
    rounded,
    series_encodings,
)
from glbandits.common.display.displayed import percent
from glbandits.common.display.palette import GREY
from glbandits.evaluation.comparison_result import LOG, PolicyComparison
from glbandits.evaluation.estimators.estimator import UNKNOWN_INTERVAL
from glbandits.evaluation.estimators.results import rows_of_both_intervals
from glbandits.evaluation.estimators.support import WEIGHT_EDGES, ArmSupport
from glbandits.evaluation.learning.learning_curve import LearningCurve

SHOWN_ARMS = 24
"""Arms that a chart shows."""
IGNORED_START = 20
"""The vertical axis ignores the first 1/20 of the rows, where a running mean is noisy."""


def gains_chart(comparison: PolicyComparison, styles: SeriesStyles) -> Any:
    """Return the gain of each candidate over the logging policy, with the intervals that all hold at once."""
    rows = []
    for policy in comparison.policies:
        headline = policy.evaluation.headline
        gain = None if headline is None else headline.joint_gain
        for row in [] if gain is None else rows_of_both_intervals("", gain):
            name = row.name.removeprefix(", ") if row.interval else f"{row.name.removeprefix(', ')}: no interval"
            rows.append(IntervalRow(policy.label, name, row.value, *(row.interval or UNKNOWN_INTERVAL)))
    colours = {label: style.colour for label, style in styles.items()}
    chart = intervals_chart(rows, f"gain in mean {comparison.unit}", references=[0.0], colours=colours)
    level = percent(comparison.settings.level)
    return finish(chart, "Gain over the logging policy on these rows", f"{level} intervals, which all hold at once")


def weights_chart(comparison: PolicyComparison, styles: SeriesStyles) -> Any:
    """Return histograms of the weights on logarithmic scales, one for each policy.

    The first and the last bin have the counts beyond the edges.
    """
    ratio = WEIGHT_EDGES[1] / WEIGHT_EDGES[0]
    edges = np.concatenate([WEIGHT_EDGES[:1] / ratio, WEIGHT_EDGES, WEIGHT_EDGES[-1:] * ratio])
    rows = [
        {"series": policy.label, "weight": rounded((low * high) ** 0.5), "low": low, "high": high, "rows": int(count)}
        for policy in comparison.policies
        for (low, high), count in zip(pairwise(edges.tolist()), policy.evaluation.support.weight_counts, strict=True)
        if count
    ]
    title = "weight: probability under the policy / in the log"
    colour, dash, _ = series_encodings(styles)
    tooltip = ["series:N", alt.Tooltip("low:Q", format=".3~g"), alt.Tooltip("high:Q", format=".3~g"), "rows:Q"]
    log_axis = alt.Axis(format="~g", labelOverlap=True)
    chart = (
        alt.Chart(inline(rows))
        .mark_line(interpolate="step", point={"size": 30})
        .encode(
            x=alt.X("weight:Q", title=title, scale=alt.Scale(type="log"), axis=log_axis),
            y=alt.Y("rows:Q", title="rows", scale=alt.Scale(type="log"), axis=log_axis),
            color=colour,
            strokeDash=dash,
            tooltip=tooltip,
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return finish(chart, "Weights of the rows", "rows of weight 0 are left out")


def arms_chart(comparison: PolicyComparison, supports: Mapping[str, ArmSupport], styles: SeriesStyles) -> Any:
    """Return the share of each arm in the log and under each policy."""
    names = comparison.arm_names or ()
    shares = {label: support.wanted / support.wanted.sum() for label, support in supports.items()}
    logged = next(iter(supports.values())).logged
    shares = {"the log": logged / logged.sum()} | shares
    largest = np.sort(np.argsort(-np.max([*shares.values()], axis=0), kind="stable")[:SHOWN_ARMS])
    rows = [
        {"series": label, "arm": names[index], "share": rounded(share[index])}
        for index in largest
        for label, share in shares.items()
    ]
    colours = [GREY, *(styles[label].colour for label in supports)]
    series = [*shares]
    chart = (
        alt.Chart(inline(rows))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="share of decisions", axis=alt.Axis(format="%", **TICKS)),
            y=alt.Y("arm:N", title=None, sort=None, axis=alt.Axis(labelLimit=160)),
            yOffset=alt.YOffset("series:N", sort=series),
            color=series_encodings(styles)[0].scale(domain=series, range=colours),
            tooltip=["arm:N", "series:N", alt.Tooltip("share:Q", format=".2%")],
        )
        .properties(width=WIDTH, height=len(largest) * (8 + 8 * len(shares)))
    )
    selection = f"the {SHOWN_ARMS} arms of largest share, of {len(names)}" if len(names) > SHOWN_ARMS else "all arms"
    return finish(chart, "Arms in the log and under each policy", selection)


def running_chart(comparison: PolicyComparison, estimator: str, styles: SeriesStyles) -> Any:
    """Return each estimate from the rows up to a row, over the rows."""
    shown: list[Curve] = []
    for policy in comparison.policies:
        if policy.evaluation[estimator].no_evidence:
            continue
        if not shown:
            log_rows = policy.left_out_rows + policy.evaluation.at_rows
            mean = policy.evaluation.logged_running
            shown.append(Curve(LOG, log_rows, mean, np.full(len(mean), np.nan)))
        running = policy.evaluation[estimator].running
        rows = policy.left_out_rows + policy.evaluation.at_rows
        shown.append(Curve(policy.label, rows, running, np.full(len(running), np.nan)))
    chart = _over_rows(comparison, shown, {LOG: SeriesStyle(GREY, (), "circle")} | dict(styles))
    return finish(chart, f"{estimator}: the estimate over the rows", f"dotted: the mean {comparison.unit} of the log")


def learning_chart(comparison: PolicyComparison, curves: Mapping[str, LearningCurve], styles: SeriesStyles) -> Any:
    """Return the mean reward of policies while they learn, with bands."""
    level = comparison.settings.level
    quantile = float(ndtri(0.5 + level / 2))
    shown = [
        Curve(label, curve.at_events, curve.at_values, quantile * curve.at_standard_errors)
        for label, curve in curves.items()
    ]
    subtitle = f"mean {comparison.unit} so far, band: {percent(level)}; dotted: the log"
    return finish(_over_rows(comparison, shown, styles), "While learning, over the whole log", subtitle)


def _over_rows(comparison: PolicyComparison, shown: Sequence[Curve], styles: SeriesStyles) -> Any:
    parts = comparison.evaluation_by_left_out_rows
    return curves_chart(
        shown,
        "row of the log",
        f"mean {comparison.unit}",
        styles={curve.label: styles[curve.label] for curve in shown},
        y_range=_value_range(shown),
        reference=parts[min(parts)].logged,
    )


def _value_range(shown: Sequence[Curve]) -> tuple[float, float] | None:
    """Return the range of the vertical axis, without the noisy first rows.

    Returns None if there are no points.
    """
    values = []
    for curve in shown:
        late = np.isfinite(curve.mean) & (curve.x >= curve.x[0] + (curve.x[-1] - curve.x[0]) / IGNORED_START)
        half_width = np.nan_to_num(curve.half_width)
        values += [*(curve.mean - half_width)[late], *(curve.mean + half_width)[late]]
    if not values:
        return None
    margin = 0.05 * (max(values) - min(values)) or 1.0
    return float(min(values) - margin), float(max(values) + margin)
