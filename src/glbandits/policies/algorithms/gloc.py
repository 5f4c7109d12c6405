"""GLOC: UCB with online Newton steps (Jun, Bhargava, Nowak and Willett, 2017)."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.policies.contract import NonNegative, PolicyInfo
from glbandits.policies.shared.gloc_policy import GlocPolicy, factor_of, theta_hat_of


class Gloc(GlocPolicy):
    """Pull the largest x'theta_hat + c ||x||_{V^-1}, with theta_hat from online Newton steps.

    theta_hat is the ridge regression on the predictions of the online Newton steps. `GlocPolicy` has the details and
    all settings. O(K d^2) to choose.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import Gloc
    >>> bandit = Bandit(Gloc(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> bandit.choose([[-0.5], [0.2], [0.6]])
    2
    """

    name: ClassVar[str] = "gloc"
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="d^2", memory="d^2",
        guarantee="d sqrt(T)/kappa", use_when="constant cost with a guarantee, and a small bound of ||theta*||",
    )  # fmt: skip

    exploration: NonNegative = 3.0

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_hat_of(state, dim), factor_of(state, dim), settings.exploration, out)
