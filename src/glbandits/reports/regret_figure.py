"""A static figure of mean cumulative regret over the rounds, with its standard error."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glbandits.experiments.simulated_comparison import SimulatedComparison
from glbandits.reports.series_styles import COLOURS

LINE_STYLES = ("-", "--", "-.", ":")


def escape_mathtext(text: str) -> str:
    r"""Escape dollar signs, which start a formula in Matplotlib.

    >>> print(escape_mathtext("5 $"))
    5 \$
    """
    return text.replace("$", r"\$")


def draw_regret(comparison: SimulatedComparison, folder: Path, title: str) -> tuple[Path, Path]:
    """Write the curves as regret.png and regret.svg into a folder; return both paths."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for i, (label, result) in enumerate(comparison.items()):
        colour, dash = COLOURS[i % len(COLOURS)], LINE_STYLES[i // len(COLOURS) % len(LINE_STYLES)]
        mean, error = result.mean, result.standard_error
        axes.plot(result.rounds, mean, color=colour, linestyle=dash, label=escape_mathtext(f"{label}: {mean[-1]:.1f}"))
        axes.fill_between(result.rounds, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    seeds = len(next(iter(comparison.values())).seeds)
    axes.set_title(escape_mathtext(title), loc="left", fontsize=11)
    axes.set_xlabel("round")
    axes.set_ylabel(f"cumulative regret (mean of {seeds} seeds, band: 1 s.e.)")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="regret at the end", alignment="left")
    png, svg = folder / "regret.png", folder / "regret.svg"
    figure.savefig(png, dpi=150)
    figure.savefig(svg)
    return png, svg
