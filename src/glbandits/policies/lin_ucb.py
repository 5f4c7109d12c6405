"""LinUCB with one parameter for all arms (Li, Chu, Langford and Schapire, 2010; Abbasi-Yadkori et al., 2011)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.compiled import jittable
from glbandits.maths.belief import factor_of, mean_of
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.vectors import point_mass
from glbandits.policies.belief_estimator import BeliefEstimator
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class LinUcb(BeliefEstimator):
    """Ridge regression, and an optimistic bonus: pull the largest x'theta_hat + beta ||x|| in V^-1.

    V = lambda I + sum xx' and theta_hat = V^-1 sum yx, kept by rank-one updates. O(K d^2) to choose, O(d^2) to learn.
    Rewards of any range are taken as they are: the link is the identity.

    Args:
        exploration: beta, the width of the confidence set.
        prior_precision: lambda.

    >>> from glbandits import Bandit, LinUcb
    >>> bandit = Bandit(LinUcb(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 1.0)
    >>> bandit.choose([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    0
    """

    name: ClassVar[str] = "lin-ucb"
    link: ClassVar[str | Link] = "identity"

    exploration: float = 0.1

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        dim = arms.shape[1]
        return best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings[0])

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        dim = arms.shape[1]
        point_mass(out, best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings[0]))
        return True
