"""LinUCB with one parameter for all arms (Li, Chu, Langford and Schapire, 2010; Abbasi-Yadkori et al., 2011)."""

from dataclasses import dataclass
from typing import ClassVar

from glbandits.compiled import jittable
from glbandits.contract import Card, Grid
from glbandits.estimators.grids import EXPLORATIONS
from glbandits.estimators.linear_estimator import LinearEstimator, width
from glbandits.maths.belief import factor_of, mean_of
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.links import LinkFunctions
from glbandits.maths.vectors import point_mass
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class LinUcb(LinearEstimator):
    """Ridge regression, and an optimistic bonus: pull the largest x'theta_hat + beta ||x|| in V^-1.

    Settings are `LinearEstimator`'s; exploration is beta. O(K d^2) to choose, O(d^2) to learn.

    >>> from glbandits import Bandit, LinUcb
    >>> bandit = Bandit(LinUcb(), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 1.0)
    >>> bandit.choose([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    0
    """

    name: ClassVar[str] = "lin-ucb"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="d^2",
        memory="d^2",
        guarantee="d sqrt(T), linear rewards",
        use_when="rewards are linear in the features",
        page="linear",
    )

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        dim = arms.shape[1]
        return best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), width(state, settings, dim))

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        dim = arms.shape[1]
        beta = width(state, settings, dim)
        point_mass(out, best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), beta))
        return True
