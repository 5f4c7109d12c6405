"""PromptRouter on prompts in several random orders."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.prompts import Prompts, Run
from glbandits.common.arrays import Floats
from glbandits.routing import PromptRouter
from glbandits.routing.prompt_features import PROMPT_TEXT

ORDERS = 20
HALF = 1500
"""The prompt of a change."""


def new_router(
    benchmark: Prompts, limit: float, seed: int, *, text: bool = False, warm: bool = True, without: int | None = None
) -> PromptRouter:
    """Return a router for the models of a benchmark, with their mean costs there as expected costs.

    Args:
        benchmark: what the router learns.
        limit: the budget.
        seed: of the router.
        text: whether prompts are texts.
        warm: whether the router learns the benchmark, or only the mean costs.
        without: the index of a model that is left out.
    """
    kept = [index for index in range(len(benchmark.models)) if index != without]
    costs = benchmark.cost[:, kept].mean(axis=0).tolist()
    features: Any = PROMPT_TEXT if text else benchmark.embeddings.shape[1]
    models = dict(zip([benchmark.models[index] for index in kept], costs, strict=True))
    router = PromptRouter(models, limit, features=features, room=len(benchmark.models), seed=seed)
    if warm:
        router.warm_start(
            benchmark.texts if text else benchmark.embeddings, benchmark.quality[:, kept], benchmark.cost[:, kept]
        )
    return router


def play(
    router: PromptRouter,
    prompts: Prompts,
    *,
    text: bool = False,
    judged: Floats | None = None,
    change: Callable[[PromptRouter], None] | None = None,
) -> Any:
    """Route prompts in their order, and return the index of the chosen model of each.

    Args:
        router: learns from every prompt.
        prompts: the traffic.
        text: whether the router gets the texts.
        judged: the quality that is reported to the router, if it is not the true one.
        change: called before prompt `HALF`.
    """
    column = {name: index for index, name in enumerate(prompts.models)}
    quality = prompts.quality if judged is None else judged
    given: Any = prompts.texts if text else prompts.embeddings
    chosen = np.empty(len(prompts), dtype=np.int64)
    for prompt in range(len(prompts)):
        if prompt == HALF and change is not None:
            change(router)
        route = router.route(given[prompt])
        model = chosen[prompt] = column[route.model]
        router.feedback(route.event_id, float(quality[prompt, model]), float(prompts.cost[prompt, model]))
    return chosen


def shuffled(prompts: Prompts, seed: int) -> Any:
    """Return a random order of the prompts."""
    return np.random.default_rng(seed).permutation(len(prompts))


def orders(
    benchmark: Prompts, traffic: Prompts, limit: float, *, wrong: float = 0.0, text: bool = False, warm: bool = True
) -> list[Run]:
    """Route the traffic in several random orders, each with a new router.

    A share `wrong` of the qualities is replaced by 0 or 1 at random.
    """
    runs = []
    for seed in range(ORDERS):
        order, rng = shuffled(traffic, seed), np.random.default_rng([seed, 1])
        prompts = traffic.rows(order)
        is_wrong = rng.random(prompts.quality.shape) < wrong
        judged = np.where(is_wrong, rng.integers(2, size=is_wrong.shape), prompts.quality)
        router = new_router(benchmark, limit, seed, text=text, warm=warm)
        runs.append(Run(order, play(router, prompts, text=text, judged=judged)))
    return runs


def say(text: str = "") -> None:
    """Print a line at once."""
    print(text, flush=True)
