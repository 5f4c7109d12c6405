"""The page of `glb describe`: arms, rewards, propensities and columns of a log."""

from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from glbandits.common.display.charts import (
    HEIGHT,
    TICKS,
    WIDTH,
    IntervalRow,
    chart_html,
    finish,
    inline,
    intervals_chart,
    rounded,
)
from glbandits.common.display.html_page import Section, paragraph, write_page
from glbandits.common.display.palette import BLUE
from glbandits.common.version import __version__
from glbandits.evaluation.logs.description import PROPENSITY_EDGES, LogDescription
from glbandits.evaluation.report.charts import SHOWN_ARMS

PAGE = "description.html"


def write_description(description: LogDescription, folder: Path, command: str) -> Path:
    """Write the page into a folder; return its path. The page needs no network and no other file."""
    folder.mkdir(parents=True, exist_ok=True)
    header = paragraph(
        f"This page was written by glbandits {__version__} from {description.source}: {description.rows:,} decisions, "
        f"{len(description.arms):,} arms."
    )
    sections = [Section("summary", "Can it be evaluated?", _summary(description))]
    if description.arms:
        sections.append(Section("arms", "Arms and rewards", _arms(description)))
    if description.overlap is not None:
        sections.append(Section("propensities", "Propensities", _propensities(description)))
    if description.columns:
        about = "The columns that can describe the context, from a sample of the rows if the log is long."
        table = description.columns_table().to_html()
        sections.append(Section("columns", "Columns", f"{paragraph(about)}\n{table}"))
    return write_page(folder / PAGE, "Description of a log", header, sections, command)


def _summary(description: LogDescription) -> str:
    *sentences, _ = description.sentences()
    about = (
        "The next command estimates the mean reward of other policies. Leave out columns that are known only after the "
        "decision."
    )
    command = f"<pre><code>{escape(description.command)}</code></pre>"
    warnings = [paragraph(text, "warning") for text in sentences]
    first = "Correct the values above first. " * description.is_refused
    next_step = [paragraph(first + about)] if description.arms else []
    return "\n".join([description.summary_table().to_html(), *warnings, *next_step, command])


def _arms(description: LogDescription) -> str:
    shown = description.arms[:SHOWN_ARMS]
    is_cut = len(shown) < len(description.arms)
    selection = f"the {SHOWN_ARMS} most frequent of {len(description.arms):,}" if is_cut else ""
    rows = [{"arm": arm.name, "rows": arm.rows} for arm in shown]
    bars = (
        alt.Chart(inline(rows))
        .mark_bar(color=BLUE)
        .encode(
            x=alt.X("rows:Q", title="rows", axis=alt.Axis(**TICKS)),
            y=alt.Y("arm:N", title=None, sort=None, axis=alt.Axis(labelLimit=160)),
            tooltip=["arm:N", "rows:Q"],
        )
        .properties(width=WIDTH, height=22 * len(rows))
    )
    figures = [_figure(finish(bars, "Rows of each arm", selection), "arm-rows")]
    rewarded = [arm for arm in shown if np.isfinite(arm.mean_reward)]
    if rewarded:
        bounds = [(arm.mean_reward, 1.96 * arm.standard_error) for arm in rewarded]
        intervals = [
            IntervalRow("", arm.name, mean, mean - half_width, mean + half_width)
            for arm, (mean, half_width) in zip(rewarded, bounds, strict=True)
        ]
        chart = intervals_chart(intervals, "mean reward", references=[description.mean_reward], colours={"": BLUE})
        title = finish(chart, "Mean reward in the log", "95% intervals, arms that the log chose; dotted: all rows")
        figures.append(_figure(title, "arm-rewards"))
    about = "An arm that was chosen where rewards are high has a high mean. This is no comparison of arms."
    return "\n".join([paragraph(about), *figures, description.arms_table().to_html()])


def _propensities(description: LogDescription) -> str:
    about = (
        "The propensity is the probability with which the logging policy chose the arm of a row. A row with a small "
        "propensity has a large weight; if there are few of them, estimates depend on few rows."
    )
    edges = [PROPENSITY_EDGES[0] / 10, *PROPENSITY_EDGES.tolist()]
    counts = description.propensity_counts[: len(edges) - 1].tolist()
    rows = [
        {"low": rounded(low), "high": rounded(high), "rows": int(count), "none": 0}
        for (low, high), count in zip(pairwise(edges), counts, strict=True)
        if count
    ]
    chart = (
        alt.Chart(inline(rows))
        .mark_rect(color=BLUE)
        .encode(
            x=alt.X("low:Q", title="propensity")
            .scale(type="log", domain=[min(0.01, rows[0]["low"] or 1.0), 1.0])
            .axis(format="~g", labelOverlap=True),
            x2="high:Q",
            y=alt.Y("rows:Q", title="rows"),
            y2="none:Q",
            tooltip=[alt.Tooltip("low:Q", format=".3~g"), alt.Tooltip("high:Q", format=".3~g"), "rows:Q"],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return "\n".join([paragraph(about), _figure(finish(chart, "Propensities of the rows"), "propensities")])


def _figure(chart: Any, name: str) -> str:
    return f"<figure>{chart_html(chart, f'chart-{name}')}</figure>"
