"""What LinUCB, LinTS and online Laplace share: a Gaussian posterior of theta, updated by each reward on its own."""

from typing import Any, ClassVar

from glbandits.maths.gaussian_posterior import observe
from glbandits.maths.links import LinkFunctions
from glbandits.policy import Policy, Positive, StateLayout
from glbandits.records import Floats, Generator

LAYOUT = StateLayout()
mean_of = LAYOUT.vector("mean")
factor_of = LAYOUT.factor("factor")


class PosteriorPolicy(Policy):
    """The state is the mean of theta and the Cholesky factor of its precision. O(d^2) to learn.

    Args:
        prior_precision: lambda, the precision before the first reward, times I.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "mean"

    prior_precision: Positive = 1.0

    def init(self, dim: int) -> Floats:
        """Mean zero, precision lambda I."""
        return LAYOUT.allocate(dim, factor=self.prior_precision)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take the exact step of one observation."""
        dim = x.shape[0]
        observe(mean_of(state, dim), factor_of(state, dim), x, reward, link)
        return state
