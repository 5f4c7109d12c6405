"""What LinUCB, LinTS and online Laplace share: a Gaussian belief about theta, moved by each reward on its own."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.compiled import jittable
from glbandits.contract import settle
from glbandits.errors import number
from glbandits.maths.belief import belief_fits, first_belief, observe
from glbandits.maths.links import LinkFunctions
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class BeliefEstimator:
    """The settings and the learning of a policy whose state is a `maths.belief`.

    Args:
        prior_precision: lambda, the precision before the first reward, times I.
    """

    keeps_history: ClassVar[bool] = False

    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        settle(self, prior_precision=number("prior_precision", self.prior_precision, above=0))

    def init(self, dim: int) -> Floats:
        """Mean zero, precision lambda I."""
        return first_belief(dim, self.prior_precision)

    def fits(self, state: Floats, dim: int) -> bool:
        """A mean and a factor."""
        return belief_fits(state, dim)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """The exact step of one observation."""
        observe(state, x, reward, link)
        return state
