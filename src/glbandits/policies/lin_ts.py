"""Linear Thompson sampling with one parameter for all arms (Agrawal and Goyal, 2013)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.compiled import jittable
from glbandits.maths.belief import factor_of, mean_of
from glbandits.maths.gaussian import draw_with_precision
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.vectors import best_arm
from glbandits.policies.belief_estimator import BeliefEstimator
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class LinTs(BeliefEstimator):
    """Ridge regression, and a draw for each decision: theta ~ N(theta_hat, v^2 V^-1), pull the largest x'theta.

    V = lambda I + sum xx' and theta_hat = V^-1 sum yx, kept by rank-one updates. O(d^2 + K d) to choose, O(d^2) to
    learn. Rewards of any range are taken as they are: the link is the identity.

    Args:
        exploration: v, the scale of the draw.
        prior_precision: lambda.

    >>> from glbandits import Bandit, LinTs
    >>> bandit = Bandit(LinTs(exploration=0.01), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 1.0)
    >>> bandit.choose([[-1.0, 0.0], [1.0, 0.0]])
    1
    """

    name: ClassVar[str] = "lin-ts"
    link: ClassVar[str | Link] = "identity"

    exploration: float = 0.1

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The best arm under a draw."""
        dim = arms.shape[1]
        return best_arm(arms, draw_with_precision(mean_of(state, dim), factor_of(state, dim), settings[0], rng))

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """No exact form."""
        return False
