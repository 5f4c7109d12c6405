"""A static figure of mean cumulative regret over the rounds, with its standard error."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glbandits.common.display.plotting import escape_mathtext
from glbandits.lab.experiments.simulated_comparison import SimulatedComparison


def draw_regret(comparison: SimulatedComparison, folder: Path, title: str) -> tuple[Path, Path]:
    """Write the curves as regret.png and regret.svg into a folder; return both paths."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    comparison.plot(figure.subplots()).set_title(escape_mathtext(title), loc="left", fontsize=11)
    png, svg = folder / "regret.png", folder / "regret.svg"
    figure.savefig(png, dpi=150)
    figure.savefig(svg)
    return png, svg
