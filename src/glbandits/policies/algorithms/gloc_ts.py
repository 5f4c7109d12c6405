"""GLOC-TS: GLOC with Thompson sampling (Jun, Bhargava, Nowak and Willett, 2017)."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.posteriors.gaussian_posterior import draw_with_precision
from glbandits.policies.contract import PolicyInfo
from glbandits.policies.shared.gloc_policy import GlocPolicy, factor_of, theta_hat_of


class GlocTs(GlocPolicy):
    """Draw theta ~ N(theta_hat, c^2 V^-1) for each decision, and pull the largest x'theta.

    theta_hat and V are those of GLOC: `GlocPolicy` has the details and all settings. O(d^2 + K d) to choose.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import GlocTs
    >>> bandit = Bandit(GlocTs(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> bandit.choose([[-0.5], [0.2], [0.6]])
    2
    """

    name: ClassVar[str] = "gloc-ts"
    draws_anew: ClassVar[bool] = True
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="d^2 + K d", learn="d^2", memory="d^2", page="gloc",
        guarantee="d^(3/2) sqrt(T)/kappa", use_when="as gloc, with many arms: each takes only O(d)",
    )  # fmt: skip

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Draw theta from its distribution."""
        return draw_with_precision(theta_hat_of(state, dim), factor_of(state, dim), settings.exploration, rng)
