"""Route prompts to language models by quality and cost, within a budget.

    python examples/prompt_routing.py               # writes router.zip and the folder routes
    python examples/prompt_routing.py --out FOLDER

The prompts, the answers and their judge are simulated; replace `simulated_prompts` and `ask` by yours. A benchmark of
all models starts the router, a fourth model arrives after half of the prompts, and only every second answer is judged.
docs/tutorials/routing-prompts.md explains the steps. Costs are in dollars per 1,000 prompts.
"""

# ruff: noqa: T201
import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from glbandits.routing import PromptRouter

MODELS = {"small": 0.03, "fast": 0.9, "large": 15.0}
"""The expected cost of a typical prompt: tokens times the list price."""
BUDGET = 0.3
KINDS = {
    "maths": ("sum product fraction integer equation solve number percent", 0.96, 0.98, 0.5),
    "history": ("king war century treaty empire revolution year battle", 0.77, 0.94, 0.5),
    "physics": ("force energy mass particle wave velocity heat field", 0.80, 0.92, 0.3),
    "writing": ("poem letter style sentence tone story rhyme title", 0.90, 0.92, 0.5),
    "code": ("function loop python compile error class array variable", 0.65, 0.88, 1.0),
}
"""Kinds of simulated prompts: their words, the quality of `small` and of the others, and the cost of `medium`."""
RELATIVE_COST = {"small": 0.06, "medium": 1.0, "fast": 1.7, "large": 28.0}


class Prompt(NamedTuple):
    """A simulated prompt."""

    text: str
    kind: str


class Step(NamedTuple):
    """What happened to one prompt."""

    model: str
    quality: float
    cost: float
    price: float
    """Of the budget, before the decision."""


def simulated_prompts(n: int, seed: int) -> list[Prompt]:
    """Return prompts of several kinds, with words of their kind and some that say nothing."""
    rng = np.random.default_rng(seed)
    prompts = []
    for kind in rng.choice(list(KINDS), size=n):
        words = [
            *rng.choice(KINDS[kind][0].split(), size=4),
            *rng.choice(["please", "explain", "how", "the", "with"], size=4),
        ]
        prompts.append(Prompt(" ".join(rng.permutation(words)), str(kind)))
    return prompts


def ask(model: str, prompt: Prompt, rng: np.random.Generator) -> tuple[float, float]:
    """Return the quality of an answer, from 0 to 1, and its cost. A real one calls the model and a judge."""
    _, small, others, cost = KINDS[prompt.kind]
    quality = small if model == "small" else others
    return float(rng.beta(6 * quality, 6 * (1 - quality))), float(
        RELATIVE_COST[model] * cost * rng.lognormal(-0.1, 0.5)
    )


def new_router(log: Path | None = None) -> PromptRouter:
    """Return a router that has learned a benchmark: 400 prompts with the answers of all models."""
    router = PromptRouter(MODELS, BUDGET, log=log, seed=7)
    rng, benchmark = np.random.default_rng(1), simulated_prompts(400, seed=1)
    answers = np.array([[ask(model, prompt, rng) for model in MODELS] for prompt in benchmark])
    router.warm_start([prompt.text for prompt in benchmark], answers[:, :, 0], answers[:, :, 1])
    return router


def play(router: PromptRouter, prompts: Sequence[Prompt], arrivals: Mapping[int, tuple[str, float]]) -> list[Step]:
    """Route prompts. Models arrive before the prompts with the numbers of `arrivals`, with a guess of their cost."""
    rng, steps = np.random.default_rng(2), []
    for number, prompt in enumerate(prompts):
        if number in arrivals:
            router.add(*arrivals[number])
        price = router.budget.price if router.budget else 0.0
        route = router.route(prompt.text)
        quality, cost = ask(route.model, prompt, rng)
        router.feedback(route.event_id, quality=quality if number % 2 else None, cost=cost)
        steps.append(Step(route.model, quality, cost, price))
    return steps


def report(steps: Sequence[Step]) -> None:
    """Print quality, cost and shares of the models."""
    quality, cost = np.mean([step.quality for step in steps]), np.mean([step.cost for step in steps])
    counts = Counter(step.model for step in steps).most_common()
    shares = "  ".join(f"{model} {count / len(steps):.0%}" for model, count in counts)
    print(f"quality {quality:.3f}   cost {cost:.3f}   {shares}")


def main() -> None:
    """Route, save the router and its log, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the files, by default this one")
    parser.add_argument("--prompts", type=int, default=6000, help="number of prompts")
    given = parser.parse_args()
    router, prompts = new_router(given.out / "routes"), simulated_prompts(given.prompts, seed=2)
    half = len(prompts) // 2
    steps = play(router, prompts, {half: ("medium", 0.4)})
    router.save(given.out / "router.zip")  # a restarted program continues with PromptRouter.load
    router.write_log()
    print(f"limit {BUDGET}")
    for name, part in (("before medium", steps[:half]), ("with medium", steps[half:])):
        print(f"{name:14s}", end="  ")
        report(part)
    log = pl.read_parquet(given.out / "routes" / "*.parquet")
    print(f"{len(log)} rows in the log, {log['quality'].is_null().sum()} without a quality; it has")
    print(f"the probability of each model, for example {log['probabilities'][-1].round(3).to_list()} in the last row")


if __name__ == "__main__":
    main()
