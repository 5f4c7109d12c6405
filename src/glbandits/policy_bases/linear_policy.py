"""What LinUCB and LinTS share: ridge regression with one parameter for all arms, and its confidence width."""

import math
from typing import Any, ClassVar

from glbandits.maths.gaussian import self_normalised_width
from glbandits.numba_support import jittable
from glbandits.policy import AnyLink
from glbandits.policy_bases.confidence import Confidence
from glbandits.policy_bases.posterior_policy import PosteriorPolicy, factor_of
from glbandits.records import Floats


class LinearPolicy(PosteriorPolicy, Confidence):
    """V = lambda I + sum xx' and theta_hat = V^-1 sum yx, kept by rank-one updates. O(d^2) to learn.

    Rewards of any range are taken as they are: the link is the identity.

    Args:
        exploration: the scale of the bonus or of the draw; None for the width of the confidence set,
            R sqrt(log(det V / lambda^d) + 2 log(1/delta)) + sqrt(lambda) S (Abbasi-Yadkori, Pal and Szepesvari, 2011).
        prior_precision: lambda.
        bound: S, for that width only.
        noise: R, likewise.
        failure: delta, likewise.
    """

    link: ClassVar[AnyLink] = "identity"


@jittable
def width(state: Floats, settings: Any, dim: int) -> float:
    """The scale of the bonus or of the draw, now."""
    if settings.exploration >= 0.0:
        return float(settings.exploration)
    precision = settings.prior_precision
    noise = self_normalised_width(factor_of(state, dim), precision, settings.noise, settings.failure)
    return float(noise + math.sqrt(precision) * settings.bound)
