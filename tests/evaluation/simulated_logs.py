"""Simulated logs with known expected rewards."""

from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.evaluation import FixedArms, LoggedData, RowArms


@dataclass(frozen=True, eq=False)
class World:
    """Rows with different arms, their expected rewards, and the probabilities of two policies."""

    features: Floats
    means: Floats
    logging: Floats
    target: Floats

    @property
    def truth(self) -> float:
        """The value of the target on these rows."""
        return float((self.means * self.target).sum(axis=1).mean())


def softmax(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def make_world(rng: np.random.Generator, rows: int, *, arms: int = 4, dim: int = 3, uniform: bool = False) -> World:
    """Logistic rewards; the logging policy prefers some arms, the target others."""
    features = rng.uniform(-1, 1, (rows, arms, dim))
    scores = features @ np.array([1.0, -0.7, 0.4])[:dim]
    logging = np.full((rows, arms), 1 / arms) if uniform else softmax(-0.5 * scores + 0.3 * features[:, :, 0])
    return World(features, 1 / (1 + np.exp(-scores)), logging, softmax(1.5 * scores))


def logged(world: World, rng: np.random.Generator) -> LoggedData:
    """A log of decisions of the logging policy."""
    rows, arms = world.means.shape
    chosen = (rng.random((rows, 1)) > np.cumsum(world.logging, axis=1)).sum(axis=1).clip(0, arms - 1)
    place = np.arange(rows), chosen
    return LoggedData(
        chosen=chosen,
        rewards=(rng.random(rows) < world.means[place]).astype(np.float64),
        propensities=world.logging[place],
        arms=RowArms(world.features, np.full(rows, arms)),
        link="logistic",
    )


def small_log() -> LoggedData:
    """Five rows of three arms that can be computed by hand."""
    return LoggedData(
        chosen=np.array([0, 1, 2, 1, 0]),
        rewards=np.array([1.0, 0.0, 2.0, 3.0, 0.5]),
        propensities=np.array([0.5, 0.25, 0.2, 0.5, 0.8]),
        arms=FixedArms(np.eye(3), rows=5),
        arm_names=("a", "b", "c"),
    )
