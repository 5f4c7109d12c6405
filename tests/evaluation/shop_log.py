"""A simulated shop: four prices, a context, and the true payoff of every decision."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.evaluation import CrossedArms, LoggedData

PRICES, COSTS = np.array([5.0, 10.0, 20.0, 40.0]), np.array([1.0, 1.0, 2.0, 2.0])
NAMES = ("5", "10", "20", "40")
LOGGED = np.array([0.4, 0.3, 0.2, 0.1])
INTERCEPTS, EFFECTS = np.array([1.0, 0.3, -1.0, -2.5]), np.array([[2.0, 0.2], [1.0, 0.5], [-0.5, 1.0], [-2.0, 1.5]])


class Shop(NamedTuple):
    """A log with payoffs, the same log without them, and the expected payoffs of all arms, (n, 4)."""

    log: LoggedData
    plain: LoggedData
    expected: Floats

    def truth(self, probabilities: Floats) -> float:
        """The mean payoff of a target on these customers."""
        return float((probabilities * self.expected).sum() / len(self.log))


def shop(rows: int, seed: int) -> Shop:
    rng = np.random.default_rng(seed)
    customers = rng.normal(size=(rows, 2))
    sold = 1.0 / (1.0 + np.exp(-(customers @ EFFECTS.T + INTERCEPTS)))
    chosen = rng.choice(4, size=rows, p=LOGGED)
    plain = LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < sold[np.arange(rows), chosen]).astype(float),
        probabilities=np.tile(LOGGED, (rows, 1)),
        arms=CrossedArms(np.hstack([np.ones((rows, 1)), customers]), np.eye(4)),
        arm_names=NAMES,
        link="logistic",
    )
    with_payoffs = replace(plain, values=PRICES, costs=COSTS)
    return Shop(with_payoffs, plain, PRICES * sold - COSTS)
