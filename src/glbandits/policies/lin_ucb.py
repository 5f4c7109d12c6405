"""LinUCB with one parameter for all arms (Li, Chu, Langford and Schapire, 2010; Abbasi-Yadkori et al., 2011)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.errors import number
from glbandits.maths.belief import belief_fits, factor_of, first_belief, mean_of, observe
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.links import Link, LinkFunctions
from glbandits.maths.vectors import point_mass
from glbandits.policies.policy import settle
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class LinUcb:
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
    keeps_history: ClassVar[bool] = False
    link: ClassVar[str | Link] = "identity"

    exploration: float = 0.1
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
        )

    def init(self, dim: int) -> Floats:
        """Mean zero, precision lambda I."""
        return first_belief(dim, self.prior_precision)

    def numbers(self, dim: int) -> Floats:
        """The width."""
        return np.array([self.exploration])

    def fits(self, state: Floats, dim: int) -> bool:
        """A mean and a factor."""
        return belief_fits(state, dim)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        dim = arms.shape[1]
        return best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings[0])

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """One step of recursive ridge regression."""
        observe(state, x, reward, link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        dim = arms.shape[1]
        point_mass(out, best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings[0]))
        return True
