"""Routers of three simulated models, for tests."""

from typing import Any

import numpy as np

from glbandits import Budget
from glbandits.routing import PromptRouter
from glbandits.routing.prompt_router import Route

MODELS = {"small": 0.03, "medium": 0.5, "large": 15.0}
QUALITY = {"small": 0.7, "medium": 0.9, "large": 0.95}


def router(budget: float | Budget | None = 0.3, **settings: Any) -> PromptRouter:
    return PromptRouter(MODELS, budget, **({"features": 2, "seed": 7} | settings))


def play(router: PromptRouter, n: int, seed: int = 0, quality: dict[str, float] = QUALITY) -> list[Route]:
    """Route n prompts. A positive first feature makes the small model as good as the others."""
    rng, routes = np.random.default_rng(seed), []
    for x in rng.normal(size=(n, 2)):
        routes.append(router.route(x))
        name = routes[-1].model
        mean = 0.9 if name == "small" and x[0] > 0 else quality[name]
        judged = float(np.clip(mean + 0.1 * rng.normal(), 0, 1))
        router.feedback(routes[-1].event_id, judged, MODELS[name] * float(rng.lognormal(-0.02, 0.2)))
    return routes
