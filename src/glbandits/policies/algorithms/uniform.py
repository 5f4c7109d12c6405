"""Uniform: random arms, the baseline that every policy must beat."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.links import LinkFunctions
from glbandits.policies.contract import AnyLink, Policy, PolicyInfo, StateLayout

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")


class Uniform(Policy):
    """Pull each arm with equal probability, and learn nothing.

    The state is the number of rewards.

    Args:
        link: determines only which rewards are valid.

    >>> import numpy as np
    >>> from glbandits import Bandit, Uniform
    >>> Bandit(Uniform(), dim=2, seed=1).probabilities(np.eye(2))
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "uniform"
    layout: ClassVar[StateLayout] = LAYOUT
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="1", learn="1", memory="1", page="baselines",
        guarantee="none; regret grows with T", use_when="data for off-policy evaluation are wanted, or a baseline",
        sparse="1; 1; 1",
    )  # fmt: skip

    link: AnyLink = "identity"

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        return 1.0

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Never called, because every decision is random."""

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Count the reward."""
        state[LEARNED] += 1.0
        return state


class SparseUniform(Uniform, sparse=True):
    """The sparse form of `Uniform`, with the same functions."""
