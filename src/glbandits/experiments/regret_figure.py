"""The regret figure: mean cumulative regret over the rounds, with its standard error."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glbandits.experiments.comparison import Comparison

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


def literal(text: str) -> str:
    r"""Text that Matplotlib draws as it is: a dollar sign would start a formula.

    >>> print(literal("5 $"))
    5 \$
    """
    return text.replace("$", r"\$")


def draw_regret(comparison: Comparison, folder: Path, title: str) -> tuple[Path, Path]:
    """Draw the curves as PNG and SVG; returns both paths."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for i, (label, result) in enumerate(comparison.items()):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
        mean, error = result.mean, result.standard_error
        axes.plot(result.rounds, mean, color=colour, linestyle=dash, label=literal(f"{label}: {mean[-1]:.1f}"))
        axes.fill_between(result.rounds, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    seeds = len(next(iter(comparison.values())).seeds)
    axes.set_title(literal(title), loc="left", fontsize=11)
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
