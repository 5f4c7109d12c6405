"""PromptRouter when a model gets worse, prices change, a model arrives or feedback is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.prompts import Prompts, half_width, largest_mean, outcome
from benchmarks.routing_runs import HALF, ORDERS, new_router, orders, play, say
from glbandits.common.arrays import Floats
from glbandits.routing import PromptRouter

CHANGE_LIMITS = (0.4, 0.7)
LONG = 3000
"""The prompts of a run with a change, drawn with replacement."""
CHANGED = 1
"""The model that changes: mistral-large."""
LOSS = 0.3
"""How much worse it gets."""
WRONG = 0.05
"""The share of wrong feedback."""


def long_traffic(traffic: Prompts, seed: int) -> Prompts:
    """Return `LONG` prompts, drawn with replacement."""
    return traffic.rows(np.random.default_rng([seed, 2]).integers(len(traffic), size=LONG))


def changed(table: Floats, rule: Callable[[Floats], Floats]) -> Floats:
    """Return a copy of a table, (n, models), in which the second half of one model is changed."""
    table = table.copy()
    table[HALF:, CHANGED] = rule(table[HALF:, CHANGED])
    return table


def worse(prompts: Prompts) -> Prompts:
    """Make a model worse in the second half."""
    return replace(prompts, quality=changed(prompts.quality, lambda quality: np.maximum(quality - LOSS, 0.0)))


def dearer(prompts: Prompts) -> Prompts:
    """Make a model twice as expensive in the second half."""
    return replace(prompts, cost=changed(prompts.cost, lambda cost: 2.0 * cost))


def report_worse(benchmark: Prompts, traffic: Prompts) -> None:
    """Print the share of a model before and after it gets worse."""
    name = traffic.models[CHANGED]
    say(f"\n{name} gets worse by {LOSS} at prompt {HALF} of {LONG}: its share of prompts, ± over {ORDERS} orders")
    say("                  limit  300 before       1 to 100 after   200 to 300 after last 300         halved in")
    parts = (slice(HALF - 300, HALF), slice(HALF, HALF + 100), slice(HALF + 200, HALF + 300), slice(LONG - 300, LONG))
    for warm in (True, False):
        for limit in CHANGE_LIMITS:
            found = []
            for seed in range(ORDERS):
                router = new_router(benchmark, limit, seed, warm=warm)
                share = play(router, worse(long_traffic(traffic, seed))) == CHANGED
                found.append([share[part].mean() for part in parts])
            cells = [f"{values.mean():.3f} ± {half_width(values):.3f}" for values in np.array(found).T]
            halved = sum(after <= before / 2 for before, _, after, _ in found)
            start = "benchmark" if warm else "no benchmark"
            say(f"{start:14s} {limit:8.2f}  {'    '.join(cells)}    {halved} of {ORDERS}")


def report_prices(benchmark: Prompts, traffic: Prompts) -> None:
    """Print cost and quality when a model becomes twice as expensive."""
    name = traffic.models[CHANGED]
    say(f"\n{name} costs twice as much from prompt {HALF} of {LONG}. cost/limit: of 300 prompts, ± over orders, and")
    say("the largest mean of all prompts so far, from prompt 1,000 on")
    say("               limit  1 to 300 after   last 300         largest  quality, second half")
    twice = 2.0 * float(benchmark.cost[:, CHANGED].mean())
    changes: Mapping[str, Callable[[PromptRouter], None] | None] = {
        "unchanged": None,
        "set_cost": lambda router: router.set_cost(name, twice),
    }
    for limit in CHANGE_LIMITS:
        for label, change in changes.items():
            found, largest = [], 0.0
            for seed in range(ORDERS):
                prompts = dearer(long_traffic(traffic, seed))
                chosen = play(new_router(benchmark, limit, seed), prompts, change=change)
                at = np.arange(LONG), chosen
                quality, cost = prompts.quality[at], prompts.cost[at] / limit
                found.append([cost[HALF : HALF + 300].mean(), cost[-300:].mean(), quality[HALF:].mean()])
                largest = max(largest, largest_mean(cost))
            cells = [f"{values.mean():.3f} ± {half_width(values):.3f}" for values in np.array(found).T]
            say(f"{label:10s}  {limit:8.2f}  {cells[0]}    {cells[1]}    {largest:.3f}    {cells[2]}")


def report_arrival(benchmark: Prompts, traffic: Prompts) -> None:
    """Print what happens when a model arrives, without a benchmark, with a guess of its cost."""
    name, cost = traffic.models[CHANGED], float(benchmark.cost[:, CHANGED].mean())
    say(f"\n{name} arrives at prompt {HALF} of {LONG} without a benchmark; ± over {ORDERS} orders")
    say(
        "                                  limit  quality, first   quality, second  share, last 300  largest cost/limit"
    )
    cases: Mapping[str, tuple[int | None, Callable[[PromptRouter], None] | None]] = {
        "never there": (CHANGED, None),
        "arrives, true mean cost": (CHANGED, lambda router: router.add(name, cost)),
        "arrives, guess twice too high": (CHANGED, lambda router: router.add(name, 2.0 * cost)),
        "arrives, guess half of it": (CHANGED, lambda router: router.add(name, cost / 2.0)),
        "there from the start": (None, None),
    }
    for limit in CHANGE_LIMITS:
        for label, (without, change) in cases.items():
            found, largest = [], 0.0
            for seed in range(ORDERS):
                prompts = long_traffic(traffic, seed)
                chosen = play(new_router(benchmark, limit, seed, without=without), prompts, change=change)
                at = np.arange(LONG), chosen
                quality, share = prompts.quality[at], (chosen == CHANGED)[-300:].mean()
                found.append([quality[:HALF].mean(), quality[HALF:].mean(), share])
                largest = max(largest, largest_mean(prompts.cost[at]) / limit)
            cells = [f"{values.mean():.3f} ± {half_width(values):.3f}" for values in np.array(found).T]
            say(f"{label:30s}  {limit:7.2f}  {'    '.join(cells)}    {largest:.3f}")


def report_wrong(benchmark: Prompts, traffic: Prompts) -> None:
    """Print what wrong feedback costs."""
    say(f"\n{WRONG:.0%} of the feedback is 0 or 1 at random, limit 0.3: loss of gain, ± over {ORDERS} orders")
    for warm in (True, False):
        gains = []
        for wrong in (0.0, WRONG):
            runs = orders(benchmark, traffic, 0.3, wrong=wrong, warm=warm)
            gains.append(np.array([outcome(traffic, [run], 0.3).gain for run in runs]))
        loss = gains[0] - gains[1]
        say(f"{'benchmark' if warm else 'no benchmark':14s}  {loss.mean():+.4f} ± {half_width(loss):.4f}")


def report_changes(benchmark: Prompts, traffic: Prompts) -> None:
    """Print all tables of changes."""
    for table in (report_worse, report_prices, report_arrival, report_wrong):
        table(benchmark, traffic)
