"""Draw the figures of docs/tutorials/routing-prompts.md.

    python tools/routing_figures.py --data FOLDER

Without `--data`, the figure of quality against cost is left as it is, because it shows the real data.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from examples.prompt_routing import (
    Played,
    Prompts,
    Router,
    best_mix,
    outcome,
    play,
    read_prompts,
    route_orders,
    simulated_prompts,
)
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from glbandits.common.display.palette import COLOURS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
LIMITS = (0.06, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 4.0, 8.0)
ORDERS = 3
SHARE_WINDOW, COST_WINDOW = 200, 500
MODEL_COLOURS = {"small": COLOURS[5], "medium": COLOURS[0], "fast": COLOURS[4], "large": COLOURS[3]}
LABEL_POSITIONS = {  # away from the curves: an offset in points, and the side of the text at that position
    "llama-3.1-8b": ((0, -17), "left"),
    "mistral-large": ((-4, 8), "right"),
    "gemini-flash": ((0, -18), "left"),
    "gemini-pro": ((0, 9), "right"),
}
HATCHES = {"small": "", "medium": "//", "fast": "..", "large": "xx"}


def page_run() -> Played:
    """Return the run of the page: three models, and a fourth that arrives after 3,000 prompts."""
    benchmark, traffic = simulated_prompts(1000, seed=1), simulated_prompts(6000, seed=2)
    router = Router(embedding_size=8, limit=0.3, floor=0.1, seed=7)
    for name, expected_cost in (("small", 0.03), ("fast", 0.9), ("large", 15.0)):
        router.add_model(name, expected_cost)
    router.warm_start(benchmark, weight=400)
    return play(router, traffic, arrivals={3000: ("medium", 0.5)})


def draw_quality_against_cost(benchmark: Prompts, traffic: Prompts) -> None:
    """Draw single models as points, mixes of two models as a line and the router as a curve."""
    outcomes = [
        outcome(traffic, *route_orders(benchmark, traffic, limit, weight=2000, orders=ORDERS), limit)
        for limit in LIMITS
    ]
    figure, axes = new_figure(4.2)
    costs = traffic.cost.mean(axis=0)
    grid = np.geomspace(costs.min(), costs.max(), 400)
    mixes = [float(best_mix(traffic, cost).of(traffic.quality).mean()) for cost in grid]
    axes.plot(grid, mixes, "--", color=COLOURS[6], label="best mix of two models")
    axes.errorbar(
        [each.cost for each in outcomes],
        [each.quality for each in outcomes],
        yerr=[each.gain_error for each in outcomes],
        color=COLOURS[0],
        marker="o",
        markersize=4,
        capsize=2,
        label="router, one point per limit",
    )
    axes.plot(costs, traffic.quality.mean(axis=0), "D", color=COLOURS[1], markersize=8, label="a single model")
    for name, cost, quality in zip(traffic.models, costs, traffic.quality.mean(axis=0), strict=True):
        offset, side = LABEL_POSITIONS[name]
        axes.annotate(name, (cost, quality), offset, textcoords="offset points", ha=side)
    axes.plot(traffic.cost.mean(), traffic.quality.mean(), "s", color=COLOURS[2], markersize=8, label="random choices")
    axes.set(xscale="log", xlabel="dollars per 1,000 prompts", ylabel="mean quality", ylim=(0.765, 0.955))
    axes.set_xticks([0.03, 0.1, 0.3, 1, 3, 10], ["0.03", "0.1", "0.3", "1", "3", "10"])
    axes.legend(loc="lower right", fontsize=9)
    save(figure, "routing-quality-cost")


def draw_shares(run: Played) -> None:
    """Draw the share of prompts of each model over time."""
    figure, axes = new_figure(3.6)
    models = run.prompts.models
    ends = np.arange(SHARE_WINDOW, len(run.chosen) + 1, SHARE_WINDOW // 2)
    shares = np.array(
        [np.bincount(run.chosen[end - SHARE_WINDOW : end], minlength=len(models)) / SHARE_WINDOW for end in ends]
    )
    shown = ("small", "fast", "medium")
    areas = axes.stackplot(
        ends,
        *(shares[:, models.index(name)] for name in shown),
        colors=[MODEL_COLOURS[name] for name in shown],
        edgecolor="white",
        linewidth=0.5,
    )
    for area, name in zip(areas, shown, strict=True):
        area.set_hatch(HATCHES[name])
    axes.axvline(3000, color="black", linewidth=1.5, linestyle="--")
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 2}
    for text, at in (("small", (1500, 0.25)), ("fast", (1500, 0.8)), ("medium", (4600, 0.82)), ("small", (4600, 0.2))):
        axes.text(*at, text, ha="center", va="center", bbox=box)
    axes.text(2930, 0.5, "medium arrives", rotation=90, ha="right", va="center", bbox=box)
    axes.set(xlabel="prompts", ylabel=f"share of the last {SHARE_WINDOW}", ylim=(0, 1), xlim=(ends[0], ends[-1]))
    save(figure, "routing-shares")


def draw_budget(run: Played) -> None:
    """Draw the mean cost and the trade-off over time."""
    figure = Figure(figsize=(5, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True)
    prompts = np.arange(1, len(run.cost) + 1)
    some = slice(50, None, 10)
    total = np.concatenate([[0.0], np.cumsum(run.cost)])
    above.plot(
        prompts[COST_WINDOW - 1 :: 10],
        ((total[COST_WINDOW:] - total[:-COST_WINDOW]) / COST_WINDOW)[::10],
        color=COLOURS[5],
        label=f"mean of the last {COST_WINDOW}",
    )
    above.plot(prompts[some], (total[1:] / prompts)[some], color=COLOURS[0], linewidth=2.5, label="mean of all")
    above.axhline(0.3, color="black", linestyle="--", linewidth=1, label="limit")
    above.set(ylabel="$ per 1,000 prompts", ylim=(0.2, 0.4))
    above.legend(loc="lower right", fontsize=9)
    below.plot(prompts[some], run.trade_offs[some], color=COLOURS[1])
    below.set(xlabel="prompts", ylabel="trade-off", ylim=(0, None))
    for axes in (above, below):
        axes.axvline(3000, color="grey", linestyle=":")
        axes.grid(alpha=0.3)
    below.text(3060, 0.01, "medium arrives", ha="left")
    save(figure, "routing-budget")


def new_figure(height: float) -> tuple[Figure, Axes]:
    """Return a figure that is readable at a width of 390 pixels."""
    figure = Figure(figsize=(5, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


def save(figure: Figure, name: str) -> None:
    """Write the figure as SVG, the same bytes for the same numbers."""
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


def main() -> None:
    """Draw all figures for which there are data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with val_k4.jsonl.xz and test_k4.jsonl.xz")
    given = parser.parse_args()
    with matplotlib.rc_context({"font.size": 11, "svg.hashsalt": "glbandits"}):
        run = page_run()
        draw_shares(run)
        draw_budget(run)
        if given.data:
            draw_quality_against_cost(*read_prompts(given.data))


if __name__ == "__main__":
    main()
