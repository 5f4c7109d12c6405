"""PromptRouter: quality and cost against mixes and other routers, changes in the middle, and CPU of a decision.

Prompts are simulated, or the real ones if the variable GLB_LLM_ROUTING has the folder of `val_k4.jsonl.xz` and
`test_k4.jsonl.xz` of ParetoBandit. Then the router learns the validation file first, and all results are from the test
file. Costs are in dollars per 1,000 prompts.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.prompts import Outcome, Prompts, Run, best_mix, half_width, outcome, read_prompts, simulated_prompts
from benchmarks.routing_baselines import epsilon_greedy, trained_offline
from benchmarks.routing_changes import report_changes
from benchmarks.routing_runs import ORDERS, orders, say
from benchmarks.timing import best_seconds
from glbandits.routing import PromptRouter

LIMITS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 4.0, 10.0)
TEXT_LIMITS, COLD_LIMITS, BASELINE_LIMITS = (0.1, 0.3, 0.5), (0.1, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4, 0.7, 1.0)
LEAKED = 0.15
"""How much a misleading benchmark exaggerates the cheapest model."""


def line(found: Outcome) -> str:
    """Return the cells of a table."""
    gain, least = round(found.gain, 4) + 0.0, round(found.least, 4) + 0.0  # not -0.0
    return (
        f"{found.quality:.4f}  {found.cost:6.3f}  {gain:+.4f} ± {found.gain_error:.4f}  ({least:+.4f})"
        f"   {found.first:.3f}  {found.overspent:.3f}"
    )


def report_limits(benchmark: Prompts, traffic: Prompts) -> dict[float, Outcome]:
    """Print single models, and the router at several limits. Returns the results with embeddings."""
    say("always one model      quality            cost")
    for index, name in enumerate(traffic.models):
        quality, cost = traffic.quality[:, index], traffic.cost[:, index]
        say(f"{name:20s}  {quality.mean():.4f} ± {half_width(quality):.4f}  {cost.mean():6.3f}")
    say(f"{'a random model':20s}  {traffic.quality.mean():.4f}           {traffic.cost.mean():6.3f}")
    say(f"\nrouter, means of {ORDERS} orders. gain: quality above that of the best mix of two models at the same cost,")
    say(
        "with a 95 % interval over prompts. cost/limit: of the first 1,000 prompts, mean of the orders; and the largest"
    )
    say("mean of the first n prompts of any order, over all n >= 1,000")
    say("                  limit  quality    cost  gain               (worst order)  cost/limit: mean, largest")
    routed = {}
    for limit in LIMITS:
        routed[limit] = outcome(traffic, orders(benchmark, traffic, limit), limit)
        say(f"embedding      {limit:8.2f}  {line(routed[limit])}")
    for limit in TEXT_LIMITS if traffic.texts else ():
        found = outcome(traffic, orders(benchmark, traffic, limit, text=True), limit)
        say(f"PROMPT_TEXT    {limit:8.2f}  {line(found)}")
    exaggerated = replace(benchmark, quality=benchmark.quality.copy())
    exaggerated.quality[:, 0] = np.minimum(exaggerated.quality[:, 0] + LEAKED, 1.0)
    for limit in COLD_LIMITS:
        found = outcome(traffic, orders(benchmark, traffic, limit, warm=False), limit)
        say(f"no benchmark   {limit:8.2f}  {line(found)}")
    for limit in COLD_LIMITS:
        found = outcome(traffic, orders(exaggerated, traffic, limit), limit)
        say(f"exaggerated    {limit:8.2f}  {line(found)}")
    say(f'"exaggerated": the benchmark shows {traffic.models[0]} better by {LEAKED}, up to 1')
    return routed


def report_baselines(benchmark: Prompts, traffic: Prompts, routed: Mapping[float, Outcome]) -> None:
    """Print other ways to keep to a limit, and the router."""
    say("\nother ways          limit  quality    cost  gain               (worst order)  cost/limit: mean, largest")
    for limit in BASELINE_LIMITS:
        mix = best_mix(traffic, limit)
        affordable = np.flatnonzero(traffic.cost.mean(axis=0) <= limit)
        best = int(affordable[traffic.quality[:, affordable].mean(axis=0).argmax()])
        count = len(traffic)
        single = outcome(traffic, [Run(np.arange(count), np.full(count, best))], limit)
        say(f"{traffic.models[best]:16s} {limit:8.2f}  {line(single)}")
        quality, cost = mix.of(traffic.quality).mean(), mix.of(traffic.cost).mean()
        say(f"best mix         {limit:8.2f}  {quality:.4f}  {cost:6.3f}  +0.0000")
        greedy = [epsilon_greedy(benchmark, traffic, limit, seed) for seed in range(ORDERS)]
        say(f"epsilon-greedy   {limit:8.2f}  {line(outcome(traffic, greedy, limit))}")
        offline = outcome(traffic, [trained_offline(benchmark, traffic, limit)], limit)
        say(f"offline          {limit:8.2f}  {line(offline)}")
        say(f"PromptRouter     {limit:8.2f}  {line(routed[limit])}")
    say("A single model, and the router trained offline, have no order.")


def report_time() -> None:
    """Print CPU of `route` and `feedback` against matrix products."""
    models, size, room = 10, 64, 10
    dim = room * (1 + size)
    rng = np.random.default_rng(0)
    router = PromptRouter({f"m{i}": 0.1 * (i + 1) for i in range(models)}, 0.5, features=size, room=room, seed=1)
    prompts, matrix, rows = rng.normal(size=(100, size)), rng.normal(size=(dim, dim)), rng.normal(size=(models, dim))
    events: list[str] = []
    for step in range(1000):
        route = router.route(prompts[step % 100])
        router.feedback(route.event_id, float(rng.random()), float(rng.random()))

    def route_all() -> None:
        events.extend(router.route(prompt).event_id for prompt in prompts)

    def feedback_all() -> None:
        for _ in prompts:
            router.feedback(events.pop(), 0.5, 0.3)

    seconds = best_seconds(
        {
            "route": route_all,
            "feedback": feedback_all,
            "product": lambda: [rows @ matrix for _ in prompts],
        }
    )
    each = {name: 1e6 * value / len(prompts) for name, value in seconds.items()}
    say(f"\nCPU with {models} models and {size} features, room for {room} models: a bandit of {dim} coefficients")
    for name in ("route", "feedback"):
        ratio = each[name] / each["product"]
        say(f"{name:10s} {each[name]:4.0f} us   {ratio:.2f} of the NumPy product {rows.shape} @ {matrix.shape}")
    say()


def report() -> None:
    """Print all tables."""
    folder = os.environ.get("GLB_LLM_ROUTING")
    if folder:
        benchmark, traffic = read_prompts(Path(folder))
        say(f"real prompts: {len(benchmark)} of the validation file to learn first, {len(traffic)} of the test file")
    else:
        benchmark, traffic = simulated_prompts(1766, seed=1), simulated_prompts(1793, seed=2)
        say(f"simulated prompts: {len(benchmark)} to learn first, {len(traffic)} to route")
    report_time()
    report_baselines(benchmark, traffic, report_limits(benchmark, traffic))
    report_changes(benchmark, traffic)
