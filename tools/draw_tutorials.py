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

import altair as alt
import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.display.charts import (
    Curve,
    IntervalRow,
    chart_svg,
    curves_chart,
    finish,
    inline,
    intervals_chart,
    series_encodings,
    styles_in_order,
    titled,
)
from glbandits.common.display.palette import GREY
from glbandits.lab import Synthetic, simulate
from glbandits.lab.report.charts import styles_for

Variables: TypeAlias = dict[str, Any]

DOCS = Path(__file__).parent.parent / "docs"
WIDTH = 320
"""Pixels. A page of 390 pixels shows a picture at its full width, so letters stay readable."""


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
    regrets = page["regrets"]
    styles = {**styles_in_order(regrets), "bandit": styles_for(())["optimist"]}
    curves = [mean_curve(np.linspace(1, 5000, regret.shape[1]), regret, name) for name, regret in regrets.items()]
    save(curves_chart(curves, "visits", "clicks lost (regret)", styles=styles, panel_columns=3), "headlines-regret")


def draw_prices(page: Variables) -> None:
    """Draw true and learned revenue of each price, with the number of offers as the size of the markers."""
    colour, _, shape = series_encodings(styles_in_order(page["DEMAND"]), 3)
    lines, points = [], []
    for kind, (level, slope) in page["DEMAND"].items():
        for price in np.linspace(4, 22, 100):
            lines.append({"series": kind, "price": price, "revenue": price / (1 + np.exp(slope * price - level))})
        estimates = page["PRICES"] * page["bandit"].predict(page["ARMS"][kind])
        offered = np.bincount([arm for each, arm in page["offers"] if each == kind], minlength=10)
        for price, revenue, offers in zip(page["PRICES"], estimates, offered, strict=True):
            points.append({"series": kind, "price": float(price), "revenue": revenue, "offers": int(offers)})
    axes = {"x": alt.X("price:Q", scale=alt.Scale(domain=[3, 23])), "color": colour}
    axes["y"] = alt.Y("revenue:Q", title="expected revenue")
    size = alt.Size("offers:Q", legend=None, scale=alt.Scale(range=[20, 600]))
    markers = alt.Chart(inline(points)).mark_point(strokeWidth=1.5).encode(**axes, shape=shape, size=size)
    save(alt.layer(alt.Chart(inline(lines)).mark_line().encode(**axes), markers), "prices")


def draw_changing_world(page: Variables) -> None:
    """Draw regret over the visits, one panel for each kind of change."""
    changes = list(dict.fromkeys(change for change, _ in page["RESULTS"]))
    titles = {"nothing": "nothing changes", "jumps": "jumps", "drift": "drift"}
    panels = []
    for change in changes:
        results = {f"half_life={name}": result for (each, name), result in page["RESULTS"].items() if each == change}
        curves = [mean_curve(result.rounds, result.regret, name) for name, result in results.items()]
        panel = curves_chart(curves, "visits", "regret", panel_columns=2)
        if change == "jumps":
            jumps = inline([{"x": jump} for jump in range(2000, int(curves[0].x[-1]), 2000)])
            panel += alt.Chart(jumps).mark_rule(color=GREY, strokeDash=[2, 3]).encode(x="x:Q")
        panel = titled(panel, titles[change])
        panels.append(panel.properties(width=WIDTH, height=150))
    save(alt.vconcat(*panels), "changing-world")


def draw_reproducing_the_paper(page: Variables) -> None:
    """Draw the regret of the setting that is picked afterwards, against the number of settings."""
    runs = {"picked afterwards": page["picked"], "on fresh seeds": page["fresh"]}
    curves = [mean_curve(page["SIZES"], curve, name) for name, curve in runs.items()]
    chart = curves_chart(curves, "settings to choose from", "regret", panel_columns=2)
    axis = alt.Axis(values=list(page["SIZES"]), grid=False)
    for layer in chart.layer:
        layer.encoding.x.scale, layer.encoding.x.axis = alt.Scale(type="log"), axis
    save(chart, "selection")


def draw_from_csv_to_bandit(page: Variables) -> None:
    """Draw the learned probability of a click by age, for each offer, and the true one."""
    candidate, ages = page["candidate"], np.arange(18, 80)
    learned = candidate.coefficients()
    user = {"country": "it", "battery": "55%", "day": "2025-02-01"}
    truth = {"hat": 0 * ages, "shoe": ages < 40, "coat": ages > 60}
    values = []
    for offer, is_liked in truth.items():
        rows = [{"offer": offer, **user, "age": int(age)} for age in ages]
        scores = candidate.features.transform(rows) @ learned.theta + learned.intercept
        for age, score, liked in zip(ages.tolist(), scores, is_liked, strict=True):
            values.append({"series": offer, "age": age, "kind": "learned", "p": 1 / (1 + np.exp(-score))})
            values.append({"series": offer, "age": age, "kind": "true", "p": 0.6 if liked else 0.1})
    dash = alt.StrokeDash("kind:N", title=None, legend=alt.Legend(orient="bottom"))
    chart = (
        alt.Chart(inline(values))
        .mark_line()
        .encode(
            x=alt.X("age:Q", title="age of a user in Italy", scale=alt.Scale(domain=[18, 79])),
            y=alt.Y("p:Q", title="probability of a click"),
            color=series_encodings(styles_in_order(truth), 3)[0],
            strokeDash=dash.scale(domain=["learned", "true"], range=[[1, 0], [2, 3]]),
        )
    )
    save(chart, "csv")


def draw_evaluate(page: Variables) -> None:
    """Draw the estimated value of each page with its two intervals, and the mean reward of the log."""
    rows = []
    for name, result in page["values"].items():
        value = result.headline.value
        rows.append(IntervalRow(f"always {name}", "at every n", value.value, *value.interval))
        rows.append(IntervalRow(f"always {name}", "at this n only", value.value, *value.fixed_n))
    colours = {f"always {name}": style.colour for name, style in styles_in_order(page["values"]).items()}
    title = "sales per visitor, with 95 % intervals (dotted: the log)"
    save(intervals_chart(rows, title, references=[result.logged], colours=colours), "evaluate", height=None)


def draw_write_a_policy(_page: Variables) -> None:
    """Draw the regret of the policy of the page beside two policies of the package."""
    blocks = re.findall(r"```python\n(.*?)```", page_path("write-a-policy").read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (each for each in blocks if "class SgdGreedy(" in each)
    with TemporaryDirectory() as folder:
        (Path(folder) / "mine.py").write_text(block, encoding="utf-8")
        sys.path.insert(0, folder)
        policy = importlib.import_module("mine").SgdGreedy()
        policies = {"optimist": "optimist", "sgd-greedy, this page": policy, "uniform": "uniform"}
        curves = []
        for name, each in policies.items():
            result = simulate(each, Synthetic(), horizon=1000, seeds=50, jobs=1)
            curves.append(mean_curve(result.rounds, result.regret, name))
    save(curves_chart(curves, "rounds", "regret", panel_columns=3), "own-policy")


def draw_personalizer(_page: Variables) -> None:
    """Draw the table that the quickstart printed."""
    text = page_path("personalizer").read_text(encoding="utf-8")
    (visits,) = re.findall(r"^\| visits \|(.*)\|$", text, re.MULTILINE)
    rows = re.findall(r"^\| (\w+), of the last 250 \|(.*)\|$", text, re.MULTILINE)
    x = np.array([int(cell) for cell in visits.split("|")])
    curves = [
        Curve(name, x, np.array([float(cell) for cell in cells.split("|")]), np.full(len(x), np.nan))
        for name, cells in rows
    ]
    levels = [
        {"at": 0.84, "x": 3000, "text": "best possible for liked, with 20 % exploration"},
        {"at": 0.2, "x": 3000, "text": "a random dish"},
    ]
    base = alt.Chart(inline(levels)).encode(y="at:Q")
    texts = base.mark_text(align="right", dy=-8, color=GREY).encode(x="x:Q", text="text:N")
    chart = curves_chart(curves, "visits", "share of the last 250", y_range=(0, 1), panel_columns=2)
    save(alt.layer(base.mark_rule(color=GREY, strokeDash=[2, 3]), chart, texts), "personalizer")


def mean_curve(x: Any, runs: Floats, label: str) -> Curve:
    """Return the mean of runs (seeds, points) with its 95 % interval."""
    return Curve(label, x, runs.mean(axis=0), 1.96 * runs.std(axis=0, ddof=1) / len(runs) ** 0.5)


def save(chart: Any, name: str, height: int | None = 240) -> None:
    """Write a picture as SVG. Equal pictures are equal files. A height of None leaves that of the chart."""
    if not isinstance(chart, alt.VConcatChart):
        chart = chart.properties(width=WIDTH, **({} if height is None else {"height": height}))
    path = DOCS / "images" / f"tutorial-{name}.svg"
    path.write_text(chart_svg(finish(chart).to_json()), encoding="utf-8")
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
