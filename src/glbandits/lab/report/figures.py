"""Static figures as PNG and SVG: per experiment, and in the paper's arrangement."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from glbandits.common.display.curve import legend_name
from glbandits.common.display.plotting import escape_mathtext
from glbandits.common.display.series_styles import SeriesStyles
from glbandits.lab.experiments.outcomes import ExperimentResult, ProtocolResult, best_pulls
from glbandits.lab.experiments.protocols import PROTOCOLS
from glbandits.lab.report.chart_data import (
    PROTOCOL_TITLES,
    band_description,
    curves,
    figure_stem,
    mark_simulated,
    measure_label,
    protocol_title,
    pulls_range,
    slug,
    value_range,
)

PAPER_ORDER = ("simulation", "forest-1", "forest-1 pulls", "news", "forest-2", "forest-2 pulls")
"""The paper's arrangement: two rows of three panels."""
PULLS = " pulls"
COLUMNS, TITLE_WIDTH = 3, 48
MARKERS_PER_LINE = 7
FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Panel:
    """A panel of the figure in the paper's arrangement."""

    title: str
    result: ExperimentResult
    draw: Callable[[Axes], None]


def experiment_figure(result: ExperimentResult, styles: SeriesStyles) -> Figure:
    """Draw the curves of one experiment: protocols side by side, with the same axis."""
    columns = len(result.protocols)
    figure, panels = _figure(1, columns, width=5.2 * columns + 2.4, height=4.8)
    figure.suptitle(escape_mathtext(mark_simulated(result.experiment.title, result)), x=0.01, ha="left", fontsize=12)
    for axes, protocol in zip(panels, result.protocols, strict=True):
        axes.set_title(f"{protocol_title(result, protocol)}: {band_description(protocol)}", loc="left", fontsize=10)
        _draw_curves(axes, result, protocol, styles)
    panels[0].set_ylabel(measure_label(result.experiment))
    _legend(figure, panels, "outside right upper")
    return figure


def pulls_figure(result: ExperimentResult, styles: SeriesStyles) -> Figure:
    """Draw the median pulls of the best arms: the protocols side by side."""
    columns = len(result.protocols)
    figure, panels = _figure(1, columns, width=5.2 * columns + 2.4, height=4.4)
    figure.suptitle(escape_mathtext(mark_simulated(result.experiment.title, result)), x=0.01, ha="left", fontsize=12)
    for axes, protocol in zip(panels, result.protocols, strict=True):
        axes.set_title(protocol_title(result, protocol), loc="left", fontsize=10)
        _draw_pulls(axes, result, protocol, styles)
    panels[0].set_ylabel(f"median pulls of the {result.experiment.best_arms} best arms")
    _legend(figure, panels, "outside right upper")
    return figure


def paper_figure(results: Sequence[ExperimentResult], protocol: str, styles: SeriesStyles) -> Figure:
    """Draw the panels that were run, in the paper's order.

    All six together have the paper's arrangement.
    """
    panels = _panels(results, protocol, styles)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, all_axes = _figure(rows, columns, width=4.4 * columns, height=3.6 * rows + 0.9)
    for axes, panel in zip(all_axes, panels, strict=False):
        title = mark_simulated(panel.title, panel.result)
        axes.set_title(escape_mathtext("\n".join(textwrap.wrap(title, TITLE_WIDTH))), loc="left", fontsize=10)
        panel.draw(axes)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    _legend(figure, all_axes, "outside lower center", columns=2 * columns - 1)
    thin = any(panel.result.quick for panel in panels)
    figure.suptitle(f"{PROTOCOL_TITLES[protocol]}{', thin grid' * thin}: mean and 95 % band", fontsize=13)
    return figure


def paper_protocols(results: Sequence[ExperimentResult]) -> list[str]:
    """Return the protocols under which any panel of the paper's figure was run."""
    run = {
        protocol.protocol
        for result in results
        if result.experiment.name in PAPER_ORDER
        for protocol in result.protocols
    }
    return [name for name in PROTOCOLS if name in run]


def write_figures(results: Sequence[ExperimentResult], folder: Path, styles: SeriesStyles) -> None:
    """Write the figures of all experiments into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        save(experiment_figure(result, styles), folder, slug(result.experiment.name))
        if result.experiment.best_arms > 0:
            save(pulls_figure(result, styles), folder, figure_stem(result, "pulls"))


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in every format; return the paths. Equal figures give equal bytes."""
    paths = []
    for file_format in FORMATS:
        content = BytesIO()
        with mpl.rc_context({"svg.hashsalt": "glbandits"}):
            metadata = {"Date": None} if file_format == "svg" else None
            figure.savefig(content, format=file_format, dpi=150, metadata=metadata)
        paths.append(folder / f"{name}.{file_format}")
        paths[-1].write_bytes(content.getvalue())
    return paths


def _panels(results: Sequence[ExperimentResult], protocol: str, styles: SeriesStyles) -> list[Panel]:
    run = {result.experiment.name: (result, result.under(protocol)) for result in results}
    panels = []
    for name in PAPER_ORDER:
        result, outcome = run.get(name.removesuffix(PULLS), (None, None))
        if result is None or outcome is None or (name.endswith(PULLS) and result.experiment.best_arms == 0):
            continue
        title = result.experiment.title
        if name.endswith(PULLS):
            title = f"{title.split(':')[0]}: median pulls of the {result.experiment.best_arms} best arms"
        panels.append(Panel(title, result, _panel_drawer(name, result, outcome, styles)))
    return panels


def _panel_drawer(
    name: str, result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles
) -> Callable[[Axes], None]:
    def draw(axes: Axes) -> None:
        if name.endswith(PULLS):
            _draw_pulls(axes, result, protocol, styles, short=True)
            axes.set_ylabel("median pulls")
        else:
            _draw_curves(axes, result, protocol, styles)
            axes.set_ylabel(measure_label(result.experiment))

    return draw


def _figure(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.08))
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _legend(
    figure: Figure,
    panels: Sequence[Axes],
    location: Literal["outside right upper", "outside lower center"],
    columns: int = 1,
) -> None:
    """Draw one legend for all panels, outside of them."""
    handles: dict[str, Artist] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc=location,
        ncols=columns,
        frameon=False,
        handlelength=4,
        fontsize=9,
    )


def _draw_curves(axes: Axes, result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles) -> None:
    shown = curves(result.experiment, protocol)
    for index, curve in enumerate(shown):
        style, spacing = styles[curve.label], max(1, len(curve.rounds) // MARKERS_PER_LINE)
        axes.plot(
            curve.rounds,
            curve.mean,
            color=style.colour,
            linestyle=style.matplotlib_dash,
            linewidth=style.width,
            marker=style.marker,
            markersize=5,
            markevery=(spacing // 2 + index * spacing // (2 * len(shown)), spacing),
            label=escape_mathtext(legend_name(curve.label, curve.is_extra)),
        )
        if curve.has_band:
            low, high = curve.mean - curve.half_width, curve.mean + curve.half_width
            axes.fill_between(curve.rounds, low, high, color=style.colour, alpha=0.12, linewidth=0)
    axes.set_xlabel("round")
    axes.set_xlim(0, result.experiment.horizon)
    axes.set_ylim(*value_range(result))
    _set_grid(axes)


def _draw_pulls(
    axes: Axes, result: ExperimentResult, protocol: ProtocolResult, styles: SeriesStyles, *, short: bool = False
) -> None:
    pulls = best_pulls(result, protocol)
    centres, width = np.arange(len(pulls.arms)), 0.84 / len(pulls.medians)
    extras = {outcome.label for outcome in protocol.outcomes if outcome.is_extra}
    for i, (label, medians) in enumerate(pulls.medians.items()):
        offset = (i - (len(pulls.medians) - 1) / 2) * width
        style = styles[label]
        axes.bar(
            centres + offset,
            medians,
            width,
            color=style.colour,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0,
            label=escape_mathtext(legend_name(label, label in extras)),
        )
    axes.set_xticks(
        centres, [escape_mathtext(arm.replace(" (", "\n(")) for arm in pulls.arms], fontsize=9 if short else 10
    )
    axes.set_ylim(*pulls_range(result))
    _set_grid(axes)


def _set_grid(axes: Axes) -> None:
    axes.grid(alpha=0.25, axis="y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
