"""Base class of LinUCB and LinTS: ridge regression."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats
from glbandits.maths.posteriors.gaussian_posterior import inverse_norms
from glbandits.policies.contract import AnyLink, NonNegative, Positive
from glbandits.policies.shared.posterior_policy import PosteriorPolicy, factor_of


class LinearPolicy(PosteriorPolicy):
    """Ridge regression: V = lambda I + sum xx' and theta_hat = V^-1 sum yx.

    One theta is shared by all arms. Rank-one updates take O(d^2) a reward. The link is the identity, so rewards may
    have any range.

    Args:
        exploration: the scale of the bonus or draw.
        prior_precision: lambda.
        noise: the standard deviation of the rewards. Used by intervals of predictions only.
    """

    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration",)
    link: ClassVar[AnyLink] = "identity"

    exploration: NonNegative = 1.0
    noise: Positive = 0.5

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats | None:
        """Return the posterior variances for rewards with the standard deviation `noise`."""
        return self.noise**2 * inverse_norms(factor_of(state, dim), arms)
