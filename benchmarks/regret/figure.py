"""The picture: a row for each problem, every policy's regret in units of the best tuned one's."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

from benchmarks.regret.contestants import SUBJECT
from benchmarks.regret.results import ProblemResult

# Okabe and Ito's colours, told apart by colour-blind readers too; the shapes differ as well.
BLUE, ORANGE, BLACK, GREY = "#0072B2", "#D55E00", "#000000", "#B0B0B0"
MARKED = "sgd-ts"
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)


def draw(results: Sequence[ProblemResult], folder: Path) -> None:
    """Draw regret.png and regret.svg."""
    figure = Figure(figsize=(9, 1.6 + 0.34 * len(results)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.axvline(1.0, color=BLACK, linewidth=0.8, zorder=1)
    for row, result in enumerate(results):
        others = [result.relative(p) for p in result.players if p.label not in (SUBJECT, MARKED)]
        axes.plot(others, [row] * len(others), "o", color=GREY, markersize=4, markeredgewidth=0, zorder=2)
        axes.plot([1.0], [row], "|", color=BLACK, markersize=13, markeredgewidth=2, zorder=3)
        marked = [result.relative(p) for p in result.players if p.label == MARKED]
        axes.plot(marked, [row] * len(marked), "D", color=ORANGE, markersize=6, zorder=4)
        ratio, low, high = result.ratio
        axes.plot([low, high], [row, row], color=BLUE, linewidth=2.2, solid_capstyle="round", zorder=5)
        axes.plot([ratio], [row], "o", color=BLUE, markersize=8, markeredgecolor="white", zorder=6)
    axes.set_yticks(range(len(results)), [result.name for result in results])
    axes.set_ylim(len(results) - 0.4, -0.6)
    side = axes.secondary_yaxis("right")
    side.set_yticks(range(len(results)), [result.best.label for result in results], color="#555555", fontsize=9)
    side.tick_params(length=0)
    side.spines["right"].set_visible(False)
    axes.set_ylabel("problem")
    side.set_ylabel("best tuned policy", color="#555555")
    axes.set_xlabel("regret, relative to the best tuned policy of the problem (less is better)")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in TICKS if low <= tick <= high]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.plot([], [], "o-", color=BLUE, markersize=8, linewidth=2.2, label=f"{SUBJECT}, untuned (95 %)")
    axes.plot([], [], "D", color=ORANGE, markersize=6, label=f"{MARKED}, tuned")
    axes.plot([], [], "|", color=BLACK, markersize=13, markeredgewidth=2, label="best tuned")
    axes.plot([], [], "o", color=GREY, markersize=4, label="all others, tuned")
    figure.legend(loc="outside upper left", ncols=4, frameon=False)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"regret.{suffix}", dpi=150)
