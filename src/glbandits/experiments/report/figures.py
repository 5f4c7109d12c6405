"""Static figures, as PNG and SVG: one for each experiment and protocol, and one in the paper's arrangement."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from glbandits.experiments.protocols import PROTOCOLS, ProtocolResult
from glbandits.experiments.report.chart_data import (
    PROTOCOL_TITLES,
    best_pulls,
    curves,
    measure_in_words,
    named,
    spread_in_words,
    stem,
    title_of,
    value_range,
)
from glbandits.experiments.report.series_styles import SeriesStyles
from glbandits.experiments.results import ExperimentResult

CURVE_PANELS = {"simulation": (0, 0), "forest-1": (0, 1), "news": (1, 0), "forest-2": (1, 1)}
"""Where the paper has them: the first two columns, from left to right and top to bottom."""
PULLS_PANELS = {"forest-1": (0, 2), "forest-2": (1, 2)}
"""The third column: pulls of the best arms."""
FORMATS = ("png", "svg")


def experiment_figure(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> Figure:
    """The curves of one experiment under one protocol."""
    figure, axes = _figure_of_one(f"{result.experiment.title}\n{title_of(result, protocol)}", result)
    _draw_curves(axes, result, protocol, styles)
    axes.set_ylabel(f"{measure_in_words(result.experiment)}\n({spread_in_words(protocol)})")
    figure.legend(loc="outside right upper", frameon=False, title="at the end", alignment="left")
    return figure


def pulls_figure(result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> Figure:
    """The median pulls of the best arms."""
    figure, axes = _figure_of_one(f"{result.experiment.title}\n{title_of(result, protocol)}", result)
    _draw_pulls(axes, result, protocol, styles)
    axes.set_ylabel(f"median pulls of the {result.experiment.best_arms} best arms")
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def paper_figure(results: Sequence[ExperimentResult], protocol: str, styles: SeriesStyles) -> Figure:
    """All that was run, in the paper's arrangement of two rows and three columns."""
    figure = Figure(figsize=(13, 7.4), layout=ConstrainedLayoutEngine(h_pad=0.08))
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 3)
    run = {
        result.experiment.name: (result, outcome)
        for result in results
        for outcome in result.protocols
        if outcome.protocol == protocol
    }
    for name, place in CURVE_PANELS.items():
        axes = panels[place]
        if name in run:
            result, outcome = run[name]
            axes.set_title(named(name, result), loc="left", fontsize=11)
            _draw_curves(axes, result, outcome, styles, final=False)
            axes.set_ylabel(measure_in_words(result.experiment))
        else:
            _not_run(axes, name)
    for name, place in PULLS_PANELS.items():
        axes = panels[place]
        if name in run and run[name][0].experiment.best_arms > 0:
            result, outcome = run[name]
            many = result.experiment.best_arms
            axes.set_title(named(f"{name}, {many} best arms", result), loc="left", fontsize=11)
            _draw_pulls(axes, result, outcome, styles, short=True)
            axes.set_ylabel("median pulls")
        else:
            _not_run(axes, f"{name}, pulls of the best arms")
    drawn = [panels[place].get_legend_handles_labels() for place in CURVE_PANELS.values()]
    handles = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)}
    figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=8, frameon=False)
    thin = any(result.quick for result, _ in run.values())
    figure.suptitle(f"{PROTOCOL_TITLES[protocol]}{', thin grid' * thin}: mean and 95 % band", fontsize=13)
    return figure


def paper_protocols(results: Sequence[ExperimentResult]) -> list[str]:
    """The protocols under which any panel of the paper's arrangement was run."""
    run = {one.protocol for result in results if result.experiment.name in CURVE_PANELS for one in result.protocols}
    return [name for name in PROTOCOLS if name in run]


def write_figures(results: Sequence[ExperimentResult], folder: Path, styles: SeriesStyles) -> None:
    """Draw all figures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        for protocol in result.protocols:
            save(experiment_figure(result, protocol, styles), folder, stem(result, protocol))
            if result.experiment.best_arms > 0:
                save(pulls_figure(result, protocol, styles), folder, stem(result, protocol, "pulls"))


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in every format; the same figure gives the same bytes."""
    paths = []
    for kind in FORMATS:
        written = BytesIO()
        with mpl.rc_context({"svg.hashsalt": "glbandits"}):
            figure.savefig(written, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
        paths.append(folder / f"{name}.{kind}")
        paths[-1].write_bytes(written.getvalue())
    return paths


def _figure_of_one(title: str, result: ExperimentResult) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_title(named(title, result), loc="left", fontsize=11)
    return figure, axes


def _draw_curves(
    axes: Axes, result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles, *, final: bool = True
) -> None:
    reward = result.experiment.measure == "reward"
    drawn = curves(result.experiment, protocol)
    for curve in drawn:
        style, last = styles[curve.label], curve.mean[-1]
        label = f"{curve.label}: {last:.3f}" if reward else f"{curve.label}: {last:.1f}"
        axes.plot(
            curve.rounds, curve.mean, color=style.colour, linestyle=style.dash, label=label if final else curve.label
        )
        if curve.has_band:
            low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
            axes.fill_between(curve.rounds, low, high, color=style.colour, alpha=0.14, linewidth=0)
    axes.set_xlabel("round")
    axes.set_xlim(0, result.experiment.horizon)
    axes.set_ylim(*value_range(result.experiment, drawn))
    _plain(axes)


def _draw_pulls(
    axes: Axes, result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles, *, short: bool = False
) -> None:
    pulls = best_pulls(result.experiment, protocol.outcomes)
    centres, width = np.arange(len(pulls.arms)), 0.8 / len(pulls.medians)
    for i, (label, medians) in enumerate(pulls.medians.items()):
        offset = (i - (len(pulls.medians) - 1) / 2) * width
        axes.bar(centres + offset, medians, width, color=styles[label].colour, label=label)
    axes.set_xticks(centres, [arm.replace(" (", "\n(") for arm in pulls.arms], fontsize=9 if short else 10)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.grid(alpha=0.25, axis="y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _not_run(axes: Axes, name: str) -> None:
    axes.set_axis_off()
    axes.set_title(name, loc="left", fontsize=11, color="0.5")
    axes.text(0.5, 0.5, "not run", ha="center", va="center", color="0.5", transform=axes.transAxes)
