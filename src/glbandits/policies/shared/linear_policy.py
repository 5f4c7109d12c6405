"""Base class of LinUCB and LinTS: ridge regression and its confidence width."""

import math
from typing import Any, ClassVar

from glbandits.common.arrays import Floats
from glbandits.compilation.numba_support import jittable
from glbandits.maths.posteriors.gaussian_posterior import inverse_norms, self_normalised_width
from glbandits.policies.contract import AnyLink
from glbandits.policies.shared.posterior_policy import PosteriorPolicy, factor_of
from glbandits.policies.shared.shared_settings import ExplorationSettingsWithNoise


class LinearPolicy(PosteriorPolicy, ExplorationSettingsWithNoise):
    """Ridge regression: V = lambda I + sum xx' and theta_hat = V^-1 sum yx.

    One theta is shared by all arms. Rank-one updates take O(d^2) a reward. The link is the identity, so rewards may
    have any range.

    Args:
        exploration: the scale of the bonus or draw. None uses the width of the confidence set,
            R sqrt(log(det V / lambda^d) + 2 log(1/delta)) + sqrt(lambda) S (Abbasi-Yadkori, Pal and Szepesvari, 2011).
        prior_precision: lambda.
        bound: S, an upper bound of ||theta*||. Used by that width only.
        noise: R, the sub-Gaussian parameter of the rewards. Used by that width and by intervals of predictions.
        failure: delta. Used by that width only.
    """

    link: ClassVar[AnyLink] = "identity"

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats | None:
        """Return the posterior variances for rewards with the standard deviation `noise`."""
        return self.noise**2 * inverse_norms(factor_of(state, dim), arms)


@jittable
def width(state: Floats, settings: Any, dim: int) -> float:
    """The current scale of the bonus or draw."""
    if settings.exploration >= 0.0:
        return float(settings.exploration)
    precision = settings.prior_precision
    noise = self_normalised_width(factor_of(state, dim), precision, settings.noise, settings.failure)
    return float(noise + math.sqrt(precision) * settings.bound)
