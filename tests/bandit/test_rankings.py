"""Rankings that are learned from users who scan down a ranking and click what attracts them."""

import numpy as np
import pytest

from glbandits import Bandit
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic

EXAMINATION = np.array([1.0, 0.9, 0.8])
"""The probabilities that a user without a click looks as far as each position."""


def click_probability(attraction: Floats) -> float:
    """The probability that a user clicks one of these arms, given how probably each attracts the user."""
    without_click = np.cumprod(np.concatenate([[1.0], 1.0 - attraction[:-1]]))
    return float((EXAMINATION * without_click * attraction).sum())


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("by_click", [True, False], ids=["learn_click", "learn_ranking"])
def test_bandit_learns_the_best_order(by_click: bool) -> None:
    """Regret of the last quarter is a small part of that of random rankings."""
    learned = random = 0.0
    for seed in range(3):
        bandit, rng = Bandit("optimist", dim=4, seed=seed), np.random.default_rng(seed)
        (chunk,) = Synthetic(dim=4, arms=10, theta_norm=2.0).rounds(1200, seed)
        for t, (arms, attraction) in enumerate(zip(chunk.arms, chunk.expected, strict=True)):
            shown, depth = bandit.rank(arms, 3).arms, (rng.random() < EXAMINATION).sum()
            clicks = (rng.random(3) < attraction[shown]) & (np.arange(3) < depth)
            if by_click:
                bandit.learn_click(arms, shown, int(clicks.argmax()) if clicks.any() else None)
            else:
                bandit.learn_ranking(arms, shown, clicks.astype(np.float64))
            if t >= 900:
                best = click_probability(-np.sort(-attraction)[:3])
                learned += best - click_probability(attraction[shown])
                random += best - click_probability(attraction[rng.permutation(10)[:3]])
    assert learned < 0.15 * random
