"""Draw the figures of docs/tutorials/routing-prompts.md.

    python tools/routing_figures.py --data FOLDER

Without `--data`, the figure of quality against cost is left as it is, because it shows the real data.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from benchmarks import routing_runs
from benchmarks.prompts import Prompts, best_mix, outcome, read_prompts
from examples.prompt_routing import BUDGET, Step, new_router, play, simulated_prompts

from glbandits.common.display.charts import chart_svg, finish, inline
from glbandits.common.display.palette import COLOURS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
LIMITS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 4.0, 10.0)
SHARE_WINDOW, COST_WINDOW = 200, 500
MODEL_COLOURS = {"small": COLOURS[5], "medium": COLOURS[0], "fast": COLOURS[4], "large": COLOURS[3]}
LABEL_POSITIONS = {  # away from the curves: an offset in pixels, and the side of the text at that position
    "llama-3.1-8b": (14, "left"),
    "mistral-large": (-12, "right"),
    "gemini-flash": (16, "left"),
    "gemini-pro": (-12, "right"),
}
WIDTH = 320


def page_run() -> list[Step]:
    """Return the run of the page: three models, and a fourth that arrives after 3,000 prompts."""
    return play(new_router(), simulated_prompts(6000, seed=2), {3000: ("medium", 0.4)})


def draw_quality_against_cost(benchmark: Prompts, traffic: Prompts) -> None:
    """Draw single models as points, mixes of two models as a line and the router as a curve."""
    outcomes = [outcome(traffic, routing_runs.orders(benchmark, traffic, limit), limit) for limit in LIMITS]
    costs, qualities = traffic.cost.mean(axis=0), traffic.quality.mean(axis=0)
    rows = [
        {
            "series": "best mix of two models",
            "cost": cost,
            "quality": float(best_mix(traffic, cost).of(traffic.quality).mean()),
        }
        for cost in np.geomspace(costs.min(), costs.max(), 100).tolist()
    ]
    rows += [
        {
            "series": "router, one point per limit",
            "cost": each.cost,
            "quality": each.quality,
            "low": each.quality - each.gain_error,
            "high": each.quality + each.gain_error,
        }
        for each in outcomes
    ]
    rows += [
        {"series": "a single model", "cost": cost, "quality": quality, "name": name}
        for name, cost, quality in zip(traffic.models, costs.tolist(), qualities.tolist(), strict=True)
    ]
    random = {"cost": float(traffic.cost.mean()), "quality": float(traffic.quality.mean())}
    rows.append({"series": "random choices"} | random)
    series = ["best mix of two models", "router, one point per limit", "a single model", "random choices"]
    legend = alt.Legend(orient="bottom", columns=2, title=None)
    ticks = alt.Axis(values=[0.03, 0.1, 0.3, 1, 3, 10], format="~g")
    base = alt.Chart(inline(rows)).encode(
        x=alt.X(
            "cost:Q", title="dollars per 1,000 prompts", scale=alt.Scale(type="log", domain=[0.02, 20]), axis=ticks
        ),
        y=alt.Y("quality:Q", title="mean quality", scale=alt.Scale(domain=[0.765, 0.955])),
        color=alt.Color("series:N", legend=legend).scale(domain=series, range=[COLOURS[i] for i in (6, 0, 1, 2)]),
    )
    shape = alt.Shape("series:N", legend=legend).scale(domain=series, range=["stroke", "circle", "diamond", "square"])
    mixes, routed = (base.transform_filter(alt.datum.series == name) for name in series[:2])
    layers = [
        mixes.mark_line(strokeDash=[6, 3]),
        routed.mark_line(),
        routed.mark_rule().encode(y="low:Q", y2="high:Q"),
    ]
    points = base.transform_filter(alt.datum.series != series[0]).mark_point(filled=True, size=45, opacity=1)
    layers.append(points.encode(shape=shape))
    for name, (offset, side) in LABEL_POSITIONS.items():
        label = base.transform_filter(alt.datum.name == name).mark_text(dy=offset, align=side, color="black")
        layers.append(label.encode(text="name:N", color=alt.value("black")))
    save(alt.layer(*layers), "routing-quality-cost", 300)


def draw_shares(steps: Sequence[Step]) -> None:
    """Draw the share of prompts of each model over time."""
    chosen = np.array([step.model for step in steps])
    ends = np.arange(SHARE_WINDOW, len(chosen) + 1, SHARE_WINDOW // 2)
    shown = ("small", "fast", "medium")
    rows = [
        {
            "model": name,
            "position": shown.index(name),
            "prompts": int(end),
            "share": float(np.mean(chosen[end - SHARE_WINDOW : end] == name)),
        }
        for end in ends
        for name in shown
    ]
    share = alt.Y("share:Q", title=f"share of the last {SHARE_WINDOW}", stack="zero", scale=alt.Scale(domain=[0, 1]))
    colour = alt.Color("model:N", title=None, sort=shown, legend=alt.Legend(orient="bottom"))
    area = (
        alt.Chart(inline(rows))
        .mark_area(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("prompts:Q", scale=alt.Scale(domain=[int(ends[0]), int(ends[-1])])),
            y=share,
            color=colour.scale(domain=shown, range=[MODEL_COLOURS[name] for name in shown]),
            order="position:Q",
        )
    )
    labels = [("small", 1500, 0.25), ("fast", 1500, 0.8), ("medium", 4600, 0.82), ("small", 4600, 0.2)]
    texts = [{"text": text, "prompts": x, "share": y} for text, x, y in labels]
    text = alt.Chart(inline(texts)).mark_text(fontSize=13, fontWeight="bold")
    save(alt.layer(area, *arrival(0.06), text.encode(x="prompts:Q", y="share:Q", text="text:N")), "routing-shares", 240)


def draw_budget(steps: Sequence[Step]) -> None:
    """Draw the mean cost and the price over time."""
    costs, prices = np.array([step.cost for step in steps]), np.array([step.price for step in steps])
    prompts = np.arange(1, len(costs) + 1)
    total = np.concatenate([[0.0], np.cumsum(costs)])
    recent = (total[COST_WINDOW:] - total[:-COST_WINDOW]) / COST_WINDOW
    names = (f"mean of the last {COST_WINDOW}", "mean of all", "limit")
    rows = [
        {"series": name, "prompts": int(x), "cost": float(y)}
        for name, xs, ys in (
            (names[0], prompts[COST_WINDOW - 1 :], recent),
            (names[1], prompts, total[1:] / prompts),
            (names[2], prompts, np.full(len(prompts), BUDGET)),
        )
        for x, y in list(zip(xs, ys, strict=True))[50::20]
    ]
    legend = alt.Legend(orient="bottom", title=None)
    cost = alt.Y("cost:Q", title="$ per 1,000 prompts", scale=alt.Scale(domain=[0.27, 0.33]))
    above = (
        alt.Chart(inline(rows))
        .mark_line(clip=True)
        .encode(
            x="prompts:Q",
            y=cost,
            color=alt.Color("series:N", legend=legend).scale(domain=names, range=[COLOURS[5], COLOURS[0], "black"]),
            strokeDash=alt.StrokeDash("series:N", legend=legend).scale(domain=names, range=[[1, 0], [1, 0], [6, 3]]),
        )
    )
    rows = [{"prompts": int(x), "value": float(y)} for x, y in zip(prompts[50::10], prices[50::10], strict=True)]
    below = alt.Chart(inline(rows)).mark_line(color=COLOURS[1])
    below = below.encode(x="prompts:Q", y=alt.Y("value:Q", title="price"))
    panels = [
        alt.layer(panel, *arrival(at)).properties(width=WIDTH, height=170)
        for panel, at in ((above, 0.327), (below, 0.02))
    ]
    save(alt.vconcat(*panels), "routing-budget", None)


def arrival(y: float) -> list[alt.Chart]:
    """Return a vertical line where the fourth model arrives, and a label at this height."""
    base = alt.Chart(inline([{"at": 3000, "y": y, "text": "medium arrives"}])).encode(
        x=alt.X("at:Q", title="prompts", axis=alt.Axis(values=[0, 2000, 4000, 6000]))
    )
    text = base.mark_text(align="left", dx=5).encode(y="y:Q", text="text:N")
    return [base.mark_rule(strokeDash=[5, 3]), text]


def save(chart: Any, name: str, height: int | None) -> None:
    """Write the figure as SVG, readable at a width of 390 pixels. Equal figures are equal files."""
    if height is not None:
        chart = chart.properties(width=WIDTH, height=height)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.svg").write_text(chart_svg(finish(chart).to_json()), encoding="utf-8")


def main() -> None:
    """Draw all figures for which there are data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with val_k4.jsonl.xz and test_k4.jsonl.xz")
    given = parser.parse_args()
    steps = page_run()
    draw_shares(steps)
    draw_budget(steps)
    if given.data:
        draw_quality_against_cost(*read_prompts(given.data))


if __name__ == "__main__":
    main()
