"""The charts of an experiment, and figures of several panels: per experiment, and in the paper's arrangement."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from glbandits.common.display.charts import (
    DASHES,
    HEIGHT,
    SHAPES,
    WIDTH,
    Curve,
    SeriesStyle,
    SeriesStyles,
    curves_chart,
    finish,
    inline,
    rounded,
    save_specification,
    series_encodings,
    style_at,
    titled,
)
from glbandits.common.display.palette import DARK_COLOURS
from glbandits.common.parallel import run_parallel
from glbandits.lab.environments.rounds import regret_name
from glbandits.lab.experiments.experiment import Experiment
from glbandits.lab.experiments.outcomes import FRESH, PAPER, ExperimentResult, ProtocolResult, best_pulls
from glbandits.lab.experiments.protocols import PROTOCOLS
from glbandits.lab.report.tables import marked
from glbandits.policies import POLICIES

PROTOCOL_TITLES = {PAPER: "Paper's protocol", FRESH: "Fresh seeds"}
SIMULATED = "simulated data"
IGNORED_START = 20
"""The vertical axis of a running mean ignores the first 1/20 of the horizon, which is noisy."""
PAPER_ORDER = ("simulation", "forest-1", "forest-1 pulls", "news", "forest-2", "forest-2 pulls")
"""The paper's arrangement: two rows of three panels."""
PULLS = " pulls"
COLUMNS, LEGEND_COLUMNS = 3, 5
PANEL_WIDTH, PANEL_HEIGHT = 330, 250
FIRST_STYLES = ("sgd-ts", "ucb-glm", "glm-tsl", "supcb-glm", "gloc", "laplace-ts", "epsilon-greedy")
"""The policies of the paper, in the order of the styles."""
DARK_STYLES = ("optimist", "online-laplace", "glb-omd")
"""Later policies in the report of the paper. They have dark colours that no other policy has."""


def styles_for(labels: Iterable[str]) -> SeriesStyles:
    """Return styles: fixed ones for policies of the package, the next free one for others.

    >>> styles_for(["mine", "sgd-ts"])["sgd-ts"].colour
    '#0072B2'
    """
    others = [label for label in dict.fromkeys((*FIRST_STYLES, *POLICIES, *labels)) if label not in DARK_STYLES]
    styles = {label: style_at(index) for index, label in enumerate(others)}
    for index, (label, colour) in enumerate(zip(DARK_STYLES, DARK_COLOURS, strict=True)):
        styles[label] = SeriesStyle(colour, DASHES[index], SHAPES[-1 - index])
    return styles


def legend_styles(protocols: Sequence[ProtocolResult], styles: SeriesStyles) -> SeriesStyles:
    """Return the styles of the policies in these results, by the names that tables and legends show."""
    outcomes = [outcome for protocol in protocols for outcome in protocol.outcomes]
    return {marked(outcome): styles[outcome.label] for outcome in outcomes}


def experiment_curves(experiment: Experiment, protocol: ProtocolResult) -> list[Curve]:
    """Return the cumulative regret, or the running mean of expected reward, of each policy."""
    converted = []
    for outcome in protocol.outcomes:
        mean, half_width = outcome.mean, outcome.half_width
        if experiment.measure == "reward":
            mean, half_width = (protocol.best_reward - mean) / outcome.rounds, half_width / outcome.rounds
        converted.append(Curve(marked(outcome), outcome.rounds, mean, half_width))
    return converted


def value_range(result: ExperimentResult) -> tuple[float, float]:
    """Return the range of the vertical axis, the same for all protocols."""
    experiment = result.experiment
    is_regret = experiment.measure == "regret"
    first = 0 if is_regret else experiment.horizon // IGNORED_START
    low, high = [], []
    for curve in (curve for protocol in result.protocols for curve in experiment_curves(experiment, protocol)):
        half_width = np.nan_to_num(curve.half_width)
        low.append((curve.mean - half_width)[curve.x >= first].min())
        high.append((curve.mean + half_width)[curve.x >= first].max())
    bottom, top = (0.0 if is_regret else float(min(low))), float(max(high))
    margin = 0.04 * (top - bottom) or 1.0
    return bottom - (0.0 if is_regret else margin), top + margin


def regret_chart(
    result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles, panel_columns: int | None = None
) -> alt.LayerChart:
    """Return the curves of all policies with their bands. All protocols have the same vertical axis."""
    experiment, measure = result.experiment, "running mean of expected reward"
    if experiment.measure == "regret":
        measure = f"cumulative {regret_name(experiment.environment)}"
    shown, limits = experiment_curves(experiment, protocol), value_range(result)
    return curves_chart(shown, "round", measure, styles=styles, y_range=limits, panel_columns=panel_columns)


def pulls_chart(
    result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles, panel_columns: int | None = None
) -> alt.LayerChart:
    """Return a bar chart of the median pulls of the best arms.

    A marker on each bar distinguishes the policies in a greyscale print.
    """
    pulls = best_pulls(result, protocol)
    names = {outcome.label: marked(outcome) for outcome in protocol.outcomes}
    rows = [
        {"series": names[label], "arm": arm, "pulls": rounded(median)}
        for label, medians in pulls.medians.items()
        for arm, median in zip(pulls.arms, medians, strict=True)
    ]
    highest = max(values.max() for each in result.protocols for values in best_pulls(result, each).medians.values())
    colour, _, shape = series_encodings(styles, panel_columns)
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("arm:N", title=None, sort=None, axis=alt.Axis(labelAngle=0, labelExpr="split(datum.label, ' (')")),
        xOffset=alt.XOffset("series:N", sort=[*names.values()]),
        y=alt.Y("pulls:Q", title="median pulls", scale=alt.Scale(domain=[0, 1.05 * float(highest) or 1.0])),
        color=colour,
        tooltip=["series:N", "arm:N", "pulls:Q"],
    )
    markers = base.mark_point(filled=True, opacity=1, size=45).encode(shape=shape)
    return alt.layer(base.mark_bar(opacity=0.55), markers).properties(width=WIDTH, height=HEIGHT)


def chart_title(result: ExperimentResult, protocol: ProtocolResult) -> str:
    """Return the title of the charts of one protocol, which mentions the thin grid and simulated data."""
    return mark_simulated(f"{result.experiment.name}: {protocol_title(result, protocol)}", result)


def chart_subtitle(protocol: ProtocolResult, best_arms: int = 0) -> str:
    """Return what curves and bands show, or what the bars of the best arms show."""
    seeds = len(protocol.outcomes[0].seeds)
    if best_arms:
        return f"pulls of the {best_arms} best arms, median of {seeds} seed{'s' * (seeds > 1)}"
    return "one seed" if seeds == 1 else f"mean of {seeds} seeds, band: 95 %"


def experiment_figure(result: ExperimentResult, styles: SeriesStyles, *, pulls: bool = False) -> Any:
    """Return the curves, or the pulls of the best arms, of one experiment: the protocols side by side."""
    draw, best_arms = (pulls_chart, result.experiment.best_arms) if pulls else (regret_chart, 0)
    legend = legend_styles(result.protocols, styles)
    panels = [
        titled(
            draw(result, protocol, legend, LEGEND_COLUMNS),
            protocol_title(result, protocol),
            chart_subtitle(protocol, best_arms),
        )
        for protocol in result.protocols
    ]
    return finish(alt.hconcat(*panels), mark_simulated(result.experiment.title, result), wrap=100)


def paper_figure(results: Sequence[ExperimentResult], protocol: str, styles: SeriesStyles) -> Any:
    """Return the panels that were run, in the paper's order.

    All six together have the paper's arrangement.
    """
    run = {
        result.experiment.name: (result, outcome)
        for result in results
        if (outcome := result.under(protocol)) is not None and result.experiment.name in PAPER_ORDER
    }
    legend = legend_styles([outcome for _, outcome in run.values()], styles)
    panels = []
    for name in PAPER_ORDER:
        if name.removesuffix(PULLS) not in run:
            continue
        result, outcome = run[name.removesuffix(PULLS)]
        if name.endswith(PULLS) and result.experiment.best_arms == 0:
            continue
        title, draw = result.experiment.title, regret_chart
        if name.endswith(PULLS):
            title, draw = f"{title.split(':')[0]}: the {result.experiment.best_arms} best arms", pulls_chart
        panel = titled(draw(result, outcome, legend, LEGEND_COLUMNS), mark_simulated(title, result))
        panels.append(panel.properties(width=PANEL_WIDTH, height=PANEL_HEIGHT))
    is_thin = any(result.quick for result, _ in run.values())
    title = f"{PROTOCOL_TITLES[protocol]}{', thin grid' * is_thin}: mean and 95 % band"
    return finish(alt.concat(*panels, columns=COLUMNS), title, wrap=100)


def paper_figures(results: Sequence[ExperimentResult], styles: SeriesStyles) -> dict[str, Any]:
    """Return the figure of each protocol under which any panel of the paper's figure was run, by file name."""
    shown = [result for result in results if result.experiment.name in PAPER_ORDER]
    protocols = [name for name in PROTOCOLS if any(result.under(name) is not None for result in shown)]
    return {f"paper-figure-{protocol}": paper_figure(results, protocol, styles) for protocol in protocols}


def experiment_figures(results: Sequence[ExperimentResult], styles: SeriesStyles) -> dict[str, Any]:
    """Return the figures of all experiments, by file name."""
    figures = {}
    for result in results:
        name = slug(result.experiment.name)
        figures[name] = experiment_figure(result, styles)
        if result.experiment.best_arms > 0:
            figures[f"{name}-pulls"] = experiment_figure(result, styles, pulls=True)
    return figures


def save_figures(figures: Mapping[str, Any], folder: Path, *, jobs: int = 1) -> None:
    """Write figures as PNG, SVG and PDF files into a folder, in this number of processes."""
    folder.mkdir(parents=True, exist_ok=True)
    specifications = [(figure.to_json(indent=None), folder, name) for name, figure in figures.items()]
    for _ in run_parallel(_save, specifications, jobs=jobs):
        pass


def _save(figure: tuple[str, Path, str]) -> None:
    save_specification(*figure)


def protocol_title(result: ExperimentResult, protocol: ProtocolResult) -> str:
    """Return the title of a protocol, which mentions the thin grid if it was used."""
    return PROTOCOL_TITLES[protocol.protocol] + (", thin grid" if result.quick else "")


def mark_simulated(title: str, result: ExperimentResult) -> str:
    """Append a remark to a title if the data are simulated."""
    return f"{title} ({SIMULATED})" if result.simulated_data and "simulated" not in title.lower() else title


def slug(name: str) -> str:
    """Return a name that is safe in file names and HTML ids.

    >>> slug("Forest, part 2")
    'forest-part-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "experiment"
