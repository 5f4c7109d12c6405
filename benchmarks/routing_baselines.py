"""Other routers: a mean for each model with epsilon-greedy choices, and models of quality and cost trained offline."""

import numpy as np

from benchmarks.prompts import Prompts, Run
from glbandits import Budget
from glbandits.common.arrays import Floats, Ints

EPSILON = 0.05
RIDGE = 1.0
AFFORDABLE = 10.0
"""As in `PromptRouter`: random choices are among models that cost at most this many times the limit."""


def epsilon_greedy(benchmark: Prompts, traffic: Prompts, limit: float, seed: int) -> Run:
    """Route with the mean quality and cost of each model, and with the price of the same `Budget`.

    The means and the price start from the benchmark, and are learned from the traffic.
    """
    rng = np.random.default_rng(seed)
    counts = np.full(len(traffic.models), float(len(benchmark)))
    quality, cost = benchmark.quality.mean(axis=0), benchmark.cost.mean(axis=0)
    means = quality[np.newaxis], cost[np.newaxis]
    budget = Budget(limit, price=_price(*means, means[1], limit))
    order, chosen = rng.permutation(len(traffic)), np.empty(len(traffic), dtype=np.int64)
    for step, prompt in enumerate(order):
        offered = np.flatnonzero(cost <= max(AFFORDABLE * limit, cost.min()))
        greedy = offered[(quality - budget.price * cost)[offered].argmax()]
        model = chosen[step] = rng.choice(offered) if rng.random() < EPSILON else greedy
        counts[model] += 1
        quality[model] += (traffic.quality[prompt, model] - quality[model]) / counts[model]
        cost[model] += (traffic.cost[prompt, model] - cost[model]) / counts[model]
        budget.spend(float(traffic.cost[prompt, model]))
    return Run(order, chosen)


def trained_offline(benchmark: Prompts, traffic: Prompts, limit: float) -> Run:
    """Route with ridge models of quality and cost, and a price, all fitted to the benchmark and then fixed."""
    X, new = (np.hstack([np.ones((len(each), 1)), each.embeddings]) for each in (benchmark, traffic))
    gram = X.T @ X + RIDGE * np.eye(X.shape[1])
    of_quality, of_cost = (np.linalg.solve(gram, X.T @ table) for table in (benchmark.quality, benchmark.cost))
    price = _price(X @ of_quality, X @ of_cost, benchmark.cost, limit)
    return Run(np.arange(len(traffic)), _best(new @ of_quality, new @ of_cost, price))


def _price(quality: Floats, expected: Floats, cost: Floats, limit: float) -> float:
    """Return the lowest price at which the best models of all prompts cost at most the limit on average."""
    low, high = 0.0, 1.0 / limit
    for _ in range(50):
        price = (low + high) / 2
        is_too_low = cost[np.arange(len(cost)), _best(quality, expected, price)].mean() > limit
        low, high = (price, high) if is_too_low else (low, price)
    return high


def _best(quality: Floats, expected: Floats, price: float) -> Ints:
    return np.asarray((quality - price * expected).argmax(axis=1))
