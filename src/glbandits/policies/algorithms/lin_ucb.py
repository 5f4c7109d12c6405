"""LinUCB with one theta for all arms.

Li, Chu, Langford and Schapire (2010); Abbasi-Yadkori, Pal and Szepesvari (2011).
"""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.policies.contract import Grid, PolicyInfo
from glbandits.policies.shared.linear_policy import LinearPolicy
from glbandits.policies.shared.posterior_policy import factor_of, mean_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class LinUcb(LinearPolicy):
    """Pull the largest x'theta_hat + beta ||x||_{V^-1}, with theta_hat from ridge regression.

    The settings are those of `LinearPolicy`. exploration is beta. O(K d^2) to choose, O(d^2) to learn.

    >>> from glbandits import Bandit, LinUcb
    >>> bandit = Bandit(LinUcb(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 1.0)
    >>> bandit.choose([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    0
    """

    name: ClassVar[str] = "lin-ucb"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="d^2", memory="d^2", page="linear",
        guarantee="d sqrt(T), linear rewards", use_when="rewards are linear in the features",
    )  # fmt: skip

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings.exploration, out)
