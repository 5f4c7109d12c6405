"""Matplotlib axes for the `plot` methods of results."""

from collections.abc import Sequence
from typing import Any

from glbandits.common.arrays import Floats, Ints
from glbandits.common.display.palette import COLOURS
from glbandits.common.extras import needed_for

LINE_STYLES = ("-", "--", "-.", ":")


def new_axes(ax: Any) -> Any:
    """Return the given axes, or the axes of a new figure of pyplot if it is None."""
    if ax is None:
        with needed_for("plot()", "lab"):
            from matplotlib import pyplot
        ax = pyplot.subplots(layout="constrained")[1]
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def draw_curve(ax: Any, x: Ints, mean: Floats, half_width: Floats, *, label: str, index: int = 0) -> None:
    """Draw a curve with a band. The index selects colour and line style; NaN draws nothing."""
    colour, style = COLOURS[index % len(COLOURS)], LINE_STYLES[index // len(COLOURS) % len(LINE_STYLES)]
    ax.plot(x, mean, color=colour, linestyle=style, label=escape_mathtext(label))
    ax.fill_between(x, mean - half_width, mean + half_width, color=colour, alpha=0.2, linewidth=0)


def draw_intervals(
    ax: Any, names: Sequence[str], values: Sequence[float], bounds: Sequence[tuple[float, float]]
) -> None:
    """Draw a point and a horizontal interval for each name, the first on top. NaN draws no interval."""
    for row, (value, (low, high)) in enumerate(zip(values, bounds, strict=True)):
        colour = COLOURS[row % len(COLOURS)]
        ax.plot([low, high], [row, row], color=colour, linewidth=2)
        ax.plot([value], [row], "o", color=colour)
    ax.set_yticks(range(len(names)), [escape_mathtext(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)


def escape_mathtext(text: str) -> str:
    r"""Escape dollar signs, which start a formula in Matplotlib.

    >>> print(escape_mathtext("5 $"))
    5 \$
    """
    return text.replace("$", r"\$")
