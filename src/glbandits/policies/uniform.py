"""Uniform play: the floor that every policy must beat."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.contract import Card, Grid
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.randomness import any_index
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Pull each arm with equal chance, whatever was learned.

    The state is the number of rewards seen.

    Args:
        link: only says which rewards are accepted.

    >>> import numpy as np
    >>> from glbandits import Bandit, Uniform
    >>> Bandit(Uniform(), dim=2, seed=1).probabilities(np.eye(2))
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "uniform"
    keeps_history: ClassVar[bool] = False
    grid: ClassVar[Grid] = {}
    card: ClassVar[Card] = Card(
        choose="1",
        learn="1",
        memory="1",
        guarantee="none; regret grows with T",
        use_when="data for off-policy evaluation, and the floor for all others",
        page="uniform",
    )

    link: str | Link = "identity"

    def __post_init__(self) -> None:
        find_link(self.link)

    def init(self, dim: int) -> Floats:
        """No reward seen."""
        return np.zeros(1)

    def numbers(self, dim: int) -> Floats:
        """There is nothing to set."""
        return np.zeros(0)

    def fits(self, state: Floats, dim: int) -> bool:
        """One count."""
        return state.shape == (1,) and bool(np.isfinite(state[0]) and state[0] >= 0)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm."""
        return any_index(rng, arms.shape[0])

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Count the reward."""
        state[0] += 1.0
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """1/K each."""
        out[:] = 1.0 / arms.shape[0]
        return True
