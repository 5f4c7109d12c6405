"""Base class of LinUCB, LinTS and online Laplace: a Gaussian posterior of theta."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import inverse_norms, observe
from glbandits.policies.contract import Policy, Positive, StateLayout

LAYOUT = StateLayout()
mean_of = LAYOUT.vector("mean")
factor_of = LAYOUT.factor("factor")


class PosteriorPolicy(Policy):
    """A policy with a Gaussian posterior of theta, which each reward updates once.

    O(d^2) to learn. The state is the mean of theta and the Cholesky factor of its precision matrix.

    Args:
        prior_precision: lambda. The prior precision matrix is lambda I.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "mean"

    prior_precision: Positive = 1.0

    def init(self, dim: int) -> Floats:
        return LAYOUT.allocate(dim, factor=self.prior_precision)

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats | None:
        return inverse_norms(factor_of(state, dim), arms)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Update the posterior by one reward."""
        dim = x.shape[0]
        observe(mean_of(state, dim), factor_of(state, dim), x, reward, link)
        return state
