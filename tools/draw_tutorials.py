"""Draw the pictures of the tutorials, from the code of the pages.

    python tools/draw_tutorials.py            # every page
    python tools/draw_tutorials.py prices     # one page, and the examples that tests skip because they take long

It runs the examples of a page, fails if their output differs from the page, and draws from the variables that they
set.
"""

import doctest
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from glbandits.common.display.palette import GREY
from glbandits.common.display.series_styles import SeriesStyle, styles_in_order
from glbandits.lab import Synthetic, simulate
from glbandits.lab.report.policy_styles import styles_for

Variables: TypeAlias = dict[str, Any]

DOCS = Path(__file__).parent.parent / "docs"
WIDTH, FONT_SIZE = 5.2, 11.0
"""Inches and points. A page of 390 pixels shows a picture at its full width, so letters stay readable."""


def page_path(name: str) -> Path:
    """Return the file of a tutorial, in docs/tutorials or in docs."""
    path = DOCS / "tutorials" / f"{name}.md"
    return path if path.is_file() else DOCS / f"{name}.md"


def run_page(name: str) -> Variables:
    """Run the examples of a page, also those marked +SKIP, and return the variables that they set."""
    path = page_path(name)
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


def draw_from_csv_to_bandit(page: Variables) -> None:
    """Draw the learned probability of a click by age, for each offer, and the true one."""
    figure, axes = new_figure()
    candidate, ages = page["candidate"], np.arange(18, 80)
    learned = candidate.coefficients()
    truth = {"hat": 0 * ages, "shoe": ages < 40, "coat": ages > 60}
    for offer, style in styles_in_order(truth).items():
        rows = [{"offer": offer, **page["user"], "age": int(age)} for age in ages]
        scores = candidate.features.transform(rows) @ learned.theta + learned.intercept
        axes.plot(ages, 1 / (1 + np.exp(-scores)), color=style.colour, linewidth=2.5, label=f"{offer}, learned")
        true_rate = np.where(truth[offer], 0.6, 0.1)
        axes.plot(ages, true_rate, color=style.colour, linestyle=":", linewidth=1.5, label=f"{offer}, true")
    axes.set(xlabel="age of a user in Italy", ylabel="probability of a click", xlim=(18, 79), ylim=(0, 0.85))
    axes.legend(frameon=False, loc="upper center", ncols=3, fontsize=8.5, columnspacing=1.0)
    save(figure, "tutorial-csv")


def draw_evaluate(page: Variables) -> None:
    """Draw the estimated value of each page with its two intervals, and the mean reward of the log."""
    figure, axes = new_figure(height=2.4)
    styles = styles_in_order(page["values"])
    for row, (name, result) in enumerate(page["values"].items()):
        value, colour = result.headline.value, styles[name].colour
        axes.plot(value.interval, [row, row], color=colour, linewidth=2)
        axes.plot(value.fixed_n, [row, row], color=colour, linewidth=7, alpha=0.4, solid_capstyle="butt")
        axes.plot([value.value], [row], marker=styles[name].marker, color=colour)
    axes.axvline(result.logged, color=GREY, linestyle="--", linewidth=1.5)
    axes.text(result.logged, -0.62, "log", color=GREY, ha="center", va="bottom")
    axes.set_yticks(range(len(page["values"])), [f"always {name}" for name in page["values"]])
    axes.set(xlabel="sales per visitor, with 95 % intervals", ylim=(len(page["values"]) - 0.5, -0.65))
    save(figure, "tutorial-evaluate")


def draw_write_a_policy(_page: Variables) -> None:
    """Draw the regret of the policy of the page beside two policies of the package."""
    block = re.findall(r"```python\n(.*?)```", page_path("write-a-policy").read_text(encoding="utf-8"), re.DOTALL)[0]
    with TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text(block, encoding="utf-8")
        sys.path.insert(0, folder)
        policy = importlib.import_module("mine").SgdGreedy()
        policies = {"optimist": "optimist", "sgd-greedy, this page": policy, "uniform": "uniform"}
        figure, axes = new_figure()
        for name, style in styles_in_order(policies).items():
            result = simulate(policies[name], Synthetic(), horizon=1000, seeds=50, jobs=1)
            draw_mean(axes, result.rounds, result.regret, style, name)
    axes.set(xlabel="rounds", ylabel="regret", xlim=(0, 1000), ylim=(0, None))
    axes.legend(frameon=False, loc="upper left")
    save(figure, "tutorial-own-policy")


def draw_personalizer(_page: Variables) -> None:
    """Draw the table that the quickstart printed."""
    text = page_path("personalizer").read_text(encoding="utf-8")
    figure, axes = new_figure()
    (visits,) = re.findall(r"^\| visits \|(.*)\|$", text, re.MULTILINE)
    rows = re.findall(r"^\| (\w+), of the last 250 \|(.*)\|$", text, re.MULTILINE)
    for name, style in styles_in_order(name for name, _ in rows).items():
        axes.plot(
            [int(cell) for cell in visits.split("|")],
            [float(cell) for cell in dict(rows)[name].split("|")],
            color=style.colour,
            linestyle=style.matplotlib_dash,
            marker=style.marker,
            label=name,
        )
    for level, label in ((0.84, "best possible for liked, with 20 % exploration"), (0.2, "a random dish")):
        axes.axhline(level, color=GREY, linestyle=":", linewidth=1.5)
        axes.text(3000, level + 0.04, label, color=GREY, ha="right", fontsize=9)
    axes.set(xlabel="visits", ylabel="share of the last 250", xlim=(0, 3050), ylim=(0, 1))
    axes.legend(frameon=False, loc="center right")
    save(figure, "tutorial-personalizer")


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
    "from-csv-to-bandit": draw_from_csv_to_bandit,
    "evaluate": draw_evaluate,
    "write-a-policy": draw_write_a_policy,
    "personalizer": draw_personalizer,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        PAGES[chosen](run_page(chosen))
