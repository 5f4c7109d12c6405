"""What LinUCB, LinTS and online Laplace share: a Gaussian belief about theta, moved by each reward on its own."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.errors import number
from glbandits.maths.belief import belief_fits, first_belief, observe
from glbandits.maths.links import LinkFunctions
from glbandits.policies.policy import settle
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class BeliefEstimator:
    """The settings and the learning of a policy whose state is a `maths.belief`.

    Args:
        exploration: the scale of the policy's bonus or draw.
        prior_precision: lambda, the precision before the first reward, times I.
    """

    keeps_history: ClassVar[bool] = False

    exploration: float = 1.0
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
        )

    def init(self, dim: int) -> Floats:
        """Mean zero, precision lambda I."""
        return first_belief(dim, self.prior_precision)

    def numbers(self, dim: int) -> Floats:
        """The scale."""
        return np.array([self.exploration])

    def fits(self, state: Floats, dim: int) -> bool:
        """A mean and a factor."""
        return belief_fits(state, dim)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """The exact step of one observation."""
        observe(state, x, reward, link)
        return state
