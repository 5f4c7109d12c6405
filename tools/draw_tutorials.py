"""Draw the pictures of docs/tutorials, from the code of the pages.

    python tools/draw_tutorials.py            # every page
    python tools/draw_tutorials.py prices     # one page, and the examples that tests skip because they take long

It runs the examples of a page, fails if their output differs from the page, and draws from the variables that they
set.
"""

import doctest
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from glbandits.reports.series_styles import SeriesStyle, styles_for, styles_in_order

Variables: TypeAlias = dict[str, Any]

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, FONT_SIZE = 5.2, 11.0
"""Inches and points. A page of 390 pixels shows a picture at its full width, so letters stay readable."""


def run_page(name: str) -> Variables:
    """Run the examples of a page, also those marked +SKIP, and return the variables that they set."""
    path = DOCS / "tutorials" / f"{name}.md"
    text = re.sub(r"# doctest: \+SKIP", "", path.read_text(encoding="utf-8"))
    page = doctest.DocTestParser().get_doctest(text, {"__name__": name}, name, str(path), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    if runner.run(page, clear_globs=False).failed:
        sys.exit(f"{path}: the output of an example differs from the page")
    return page.globs


def draw_headlines(page: Variables) -> None:
    """Draw clicks lost over the visits."""
    figure, axes = new_figure()
    styles = {**styles_in_order(page["regrets"]), "bandit": styles_for(())["optimist"]}
    for name, regret in page["regrets"].items():
        rounds = np.linspace(1, 5000, regret.shape[1])
        draw_mean(axes, rounds, regret, styles[name], name)
    axes.set(xlabel="visits", ylabel="clicks lost (regret)", xlim=(0, 5000), ylim=(0, None))
    axes.legend(frameon=False, loc="upper left")
    save(figure, "tutorial-headlines-regret")


def draw_prices(page: Variables) -> None:
    """Draw true and learned revenue of each price, with the number of offers as the size of the markers."""
    figure, axes = new_figure()
    styles = styles_in_order(page["DEMAND"])
    fine, learned = np.linspace(4, 22, 200), page["bandit"].coefficients()
    for kind, (level, slope) in page["DEMAND"].items():
        style = styles[kind]
        axes.plot(fine, fine / (1 + np.exp(slope * fine - level)), color=style.colour, linewidth=style.width)
        estimate = page["ARMS"][kind] @ learned.theta + learned.intercept
        offered = np.bincount([arm for each, arm in page["offers"] if each == kind], minlength=10)
        axes.scatter(
            page["PRICES"],
            estimate,
            s=20 + 0.35 * offered,
            marker=style.marker,
            facecolor="none",
            edgecolor=style.colour,
            linewidth=1.5,
            label=kind,
        )
    axes.set(xlabel="price", ylabel="expected revenue", xlim=(3, 23), xticks=page["PRICES"][::2])
    axes.legend(frameon=False, loc="upper left")
    save(figure, "tutorial-prices")


def draw_changing_world(page: Variables) -> None:
    """Draw regret over the visits, one panel for each kind of change."""
    changes = list(dict.fromkeys(change for change, _ in page["RESULTS"]))
    titles = {"nothing": "nothing changes", "jumps": "jumps", "drift": "drift"}
    figure, panels = new_figure(len(changes), height=2.1)
    styles = styles_in_order(dict.fromkeys(name for _, name in page["RESULTS"]))
    for axes, change in zip(panels, changes, strict=True):
        for name, style in styles.items():
            result = page["RESULTS"][change, name]
            draw_mean(axes, result.rounds, result.regret, style, f"half_life={name}")
        if change == "jumps":
            for jump in range(2000, result.horizon, 2000):
                axes.axvline(jump, color="grey", linestyle=":", linewidth=1, zorder=0)
        axes.set_title(titles[change], loc="left", fontsize=FONT_SIZE)
        axes.set(xlim=(0, result.horizon), ylim=(0, None), ylabel="regret")
    panels[-1].legend(frameon=False, loc="upper left")
    panels[-1].set_xlabel("visits")
    save(figure, "tutorial-changing-world")


def draw_reproducing_the_paper(page: Variables) -> None:
    """Draw the regret of the setting that is picked afterwards, against the number of settings."""
    figure, axes = new_figure()
    sizes = page["SIZES"]
    styles = styles_in_order(("picked afterwards", "on fresh seeds"))
    for (name, style), curve in zip(styles.items(), (page["picked"], page["fresh"]), strict=True):
        draw_mean(axes, sizes, curve, style, name, marker=style.marker)
    axes.set(xlabel="settings to choose from", ylabel="regret", xscale="log", ylim=(0, None))
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="lower left")
    save(figure, "tutorial-selection")


def draw_mean(axes: Axes, x: Any, runs: Any, style: SeriesStyle, label: str, marker: str = "") -> None:
    """Draw the mean of runs (seeds, points) with its 95 % interval."""
    mean, margin = runs.mean(axis=0), 1.96 * runs.std(axis=0, ddof=1) / len(runs) ** 0.5
    axes.plot(
        x, mean, color=style.colour, linestyle=style.matplotlib_dash, linewidth=style.width, marker=marker, label=label
    )
    axes.fill_between(x, mean - margin, mean + margin, color=style.colour, alpha=0.2, linewidth=0)


def new_figure(panels: int = 1, height: float = 3.6) -> tuple[Figure, Any]:
    """Return a figure with panels below each other; one panel is returned as it is."""
    mpl.rcParams.update({"font.size": FONT_SIZE, "svg.hashsalt": "glbandits"})
    figure = Figure(figsize=(WIDTH, height * panels), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(panels, sharex=True)
    for each in np.atleast_1d(axes):
        each.grid(alpha=0.25)
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, name: str) -> None:
    """Write an SVG picture without a date, so that the same picture is the same file."""
    path = DOCS / "images" / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    print(f"wrote {path.relative_to(DOCS.parent)}")  # noqa: T201


PAGES: dict[str, Callable[[Variables], None]] = {
    "headlines": draw_headlines,
    "prices": draw_prices,
    "changing-world": draw_changing_world,
    "reproducing-the-paper": draw_reproducing_the_paper,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        PAGES[chosen](run_page(chosen))
