"""What LinUCB and LinTS share: ridge regression with one parameter for all arms, and its confidence width."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.estimators.belief_estimator import BeliefEstimator
from glbandits.estimators.confidence import BY_THEORY, Confidence
from glbandits.maths.belief import factor_of
from glbandits.maths.gaussian import self_normalised_width
from glbandits.maths.links import Link
from glbandits.records import Floats

EXPLORATION, PRIOR_PRECISION, BOUND, NOISE, FAILURE = 0, 1, 2, 3, 4
"""The settings in compiled code."""


@dataclass(frozen=True, kw_only=True)
class LinearEstimator(BeliefEstimator, Confidence):
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

    link: ClassVar[str | Link] = "identity"

    exploration: float | None = 1.0

    def __post_init__(self) -> None:
        BeliefEstimator.__post_init__(self)
        Confidence.__post_init__(self)

    def numbers(self, dim: int) -> Floats:
        """As the constants above name them."""
        exploration = BY_THEORY if self.exploration is None else self.exploration
        return np.array([exploration, self.prior_precision, self.bound, self.noise, self.failure])


@jittable
def width(state: Floats, settings: Floats, dim: int) -> float:
    """The scale of the bonus or of the draw, now."""
    if settings[EXPLORATION] >= 0.0:
        return float(settings[EXPLORATION])
    prior_precision = settings[PRIOR_PRECISION]
    noise = self_normalised_width(factor_of(state, dim), prior_precision, settings[NOISE], settings[FAILURE])
    return float(noise + math.sqrt(prior_precision) * settings[BOUND])
