"""The figure: a row for each problem, with regrets relative to the best tuned policy."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from benchmarks.regret.candidates import SUBJECT
from benchmarks.regret.problem import OTHERS, SEEN, STUCK, TABLES
from benchmarks.regret.results import ProblemResult
from benchmarks.regret.summary import Results
from glbandits.common.display.palette import BLACK, BLUE, GREEN, LIGHT_GREY, VERMILLION

TICKS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)


def draw(results: Results, folder: Path) -> None:
    """Write regret.png and regret.svg."""
    groups = [[r for r in results if r.problem.kind == kind] for kind in (TABLES, STUCK, OTHERS)]
    groups = [group for group in groups if group]
    heights = [len(group) + 1 for group in groups]
    figure = Figure(figsize=(9, 2 + 0.22 * sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, group in zip(panels, groups, strict=True):
        _panel(axes, group)
    low, high = panels[0].get_xlim()
    panels[-1].xaxis.set_major_locator(FixedLocator([tick for tick in TICKS if low <= tick <= high]))
    panels[-1].set_xlabel("regret relative to the best tuned policy of the problem (less is better)")
    _legend(figure, panels[0])
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"regret.{suffix}", dpi=150)


def _panel(axes: Axes, results: Results) -> None:
    axes.set_xscale("log")
    axes.axvline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    for row, result in enumerate(results):
        _row(axes, row, result)
    labels = [f"{r.problem.name}{' (dev)' if r.problem.role == SEEN else ''}" for r in results]
    axes.set_yticks(range(len(results)), labels, fontsize=8)
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.set_title(results[0].problem.kind, loc="left", fontsize=10)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _row(axes: Axes, row: int, result: ProblemResult) -> None:
    def relative(policy: str) -> list[float]:
        return [result.relative(r, result.to_tuned) for r in result.results if r.policy == policy and not r.is_tuned]

    defaults = [result.relative(r, result.to_tuned) for r in result.untuned if r.policy != SUBJECT]
    axes.plot(defaults, [row] * len(defaults), "o", color=LIGHT_GREY, markersize=3, markeredgewidth=0, zorder=2)
    axes.plot(relative(result.to_untuned.reference.policy), [row], "D", color=VERMILLION, markersize=4, zorder=4)
    if result.to_vowpal is not None:
        axes.plot(relative(result.to_vowpal.reference.policy), [row], "s", color=GREEN, markersize=4, zorder=3)
    axes.plot(result.to_tuned.interval, [row, row], color=BLUE, linewidth=2, solid_capstyle="round", zorder=5)
    axes.plot([result.to_tuned.value], [row], "o", color=BLUE, markersize=6, markeredgecolor="white", zorder=6)


def _legend(figure: Figure, axes: Axes) -> None:
    axes.plot([], [], "o-", color=BLUE, markersize=6, label=f"{SUBJECT} (95 %)")
    axes.plot([], [], "D", color=VERMILLION, markersize=4, label="best default")
    axes.plot([], [], "s", color=GREEN, markersize=4, label="best of Vowpal Wabbit")
    axes.plot([], [], "o", color=LIGHT_GREY, markersize=3, label="other defaults")
    figure.legend(loc="outside upper left", ncols=4, frameon=False)
