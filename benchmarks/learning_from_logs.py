"""Policies that learn from a log: rows per second, relative to the product of scoring."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.timing import best_seconds
from glbandits import Optimist, Policy, SgdTs, Uniform
from glbandits.common.arrays import Floats
from glbandits.evaluation import FixedArms, LoggedData, RowArms, play_log
from glbandits.evaluation.learning.learning_curve import LearningCurve

ROWS, ARMS, DIM = 200_000, 20, 6
WAYS: dict[str, Callable[..., LearningCurve]] = {
    "matched": play_log,
    "all": partial(play_log, learn="all"),
    "all, exact": partial(play_log, learn="all", exact=True),
}
"""Which rows are learned."""


def report() -> None:
    """Print rows per second of each policy, and ratios to scoring all arms of all rows."""
    rng = np.random.default_rng(1)
    features, theta = rng.uniform(-0.5, 0.5, (ROWS, ARMS, DIM)), np.full(DIM, 0.8)
    logs = {
        "arms by row": log_of(RowArms(features, np.full(ROWS, ARMS)), theta, rng),
        "fixed arms": log_of(FixedArms(features[0], rows=ROWS), theta, rng),
    }
    policies: list[Policy] = [Uniform(), SgdTs(horizon=ROWS // ARMS), Optimist()]
    runs = {
        f"{kind}, {policy.name}, {way}": partial(play, policy, log, seed=1)
        for kind, log in logs.items()
        for policy in policies
        for way, play in WAYS.items()
    }
    seconds = best_seconds({"scoring product": lambda: features.reshape(-1, DIM) @ theta, **runs}, repeats=7)
    print(f"Learning from a log: {ROWS} rows, K={ARMS}, d={DIM} (best of 7, CPU seconds, one BLAS thread)")
    for name, value in seconds.items():
        ratio = value / seconds["scoring product"]
        print(f"  {name:38s} {ROWS / value / 1e6:7.2f} million rows/s   {ratio:6.2f} x the product")
    slowest = max(value for name, value in seconds.items() if name.endswith("matched"))
    print(f"  slowest that learns matched rows: {ROWS / slowest / 1e6:.2f} million rows/s   (wanted: at least 1)")


def log_of(arms: RowArms | FixedArms, theta: Floats, rng: np.random.Generator) -> LoggedData:
    """A log of random decisions with logistic rewards."""
    chosen = rng.integers(ARMS, size=ROWS)
    pulled = arms.arms[np.arange(ROWS), chosen] if isinstance(arms, RowArms) else arms.arms[chosen]
    rewards = (rng.random(ROWS) < 1 / (1 + np.exp(-pulled @ theta))).astype(np.float64)
    return LoggedData(chosen=chosen, rewards=rewards, propensities=np.full(ROWS, 1 / ARMS), arms=arms, link="logistic")
