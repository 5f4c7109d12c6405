"""GLM-FP: maximum likelihood each round, with perturbed features (Yi and Oh, 2025)."""

from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.maths.line_order import ZRange
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_lines
from glbandits.policies.contract import Grid, NonNegative, NonNegativeInt, PolicyInfo, Positive
from glbandits.policies.shared.mle_policy import MlePolicy, factor_of, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class GlmFp(MlePolicy):
    """Pull the largest x'theta_hat + c Z ||x||_{H^-1}, with one normal Z for all arms.

    Z is drawn once per round. theta_hat is the maximum likelihood estimate from all rewards, and H the Hessian of the
    loss there. The paper adds c ||x||_{H^-1} zeta / ||theta_hat|| to every x, with one zeta ~ N(0, I) per round. The
    product of this with theta_hat is c Z ||x||_{H^-1}.

    The settings and the learning are those of `MlePolicy`. exploration is c. ridge and prior_precision are the paper's
    lambda, by default 1. By default there is no warm-up. Probabilities are exact. O(K d^2) to choose, O(t d^2) to
    learn.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import GlmFp
    >>> bandit = Bandit(GlmFp(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-fp"
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "ridge", "prior_precision", "tau")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="t d^2", memory="t d", page="randomised-fits",
        guarantee="d sqrt(T)", use_when="as online-laplace, if there is time for an exact fit each round",
    )  # fmt: skip

    warm_up: NonNegativeInt | None = 0
    ridge: NonNegative = 1.0
    prior_precision: Positive = 1.0

    @staticmethod
    def lines(
        state: Floats, settings: Any, arms: Floats, link: LinkFunctions, levels: Floats, slopes: Floats
    ) -> ZRange:
        """Write x'theta_hat and c ||x||_{H^-1} of each arm. Z is standard normal."""
        dim = arms.shape[1]
        score_lines(arms, theta_of(state, dim), factor_of(state, dim), settings.exploration, levels, slopes)
        return ZRange(-np.inf, np.inf, 0.0)
