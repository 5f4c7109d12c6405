"""Linear Thompson sampling with one theta for all arms.

Agrawal and Goyal (2013); Abeille and Lazaric (2017).
"""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.posteriors.gaussian_posterior import draw_with_precision
from glbandits.policies.contract import Grid, PolicyInfo
from glbandits.policies.shared.linear_policy import LinearPolicy
from glbandits.policies.shared.posterior_policy import factor_of, mean_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class LinTs(LinearPolicy):
    """Draw theta ~ N(theta_hat, v^2 V^-1) from ridge regression; pull the largest x'theta.

    A new theta is drawn for each decision. The settings are those of `LinearPolicy`. exploration is v. O(d^2 + K d) to
    choose, O(d^2) to learn.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import LinTs
    >>> bandit = Bandit(LinTs(exploration=0.01), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 1.0)
    >>> bandit.choose([[-1.0, 0.0], [1.0, 0.0]])
    1
    """

    name: ClassVar[str] = "lin-ts"
    draws_anew: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="d^2 + K d", learn="d^2", memory="d^2", page="linear",
        guarantee="d^(3/2) sqrt(T), linear rewards", use_when="as lin-ucb, with many arms: each takes only O(d)",
    )  # fmt: skip

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Draw theta from its posterior."""
        return draw_with_precision(mean_of(state, dim), factor_of(state, dim), settings.exploration, rng)
