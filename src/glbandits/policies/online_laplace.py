"""Online Laplace: one pass, full curvature, no step size (the estimator in the code of Faury et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import look_up, number
from glbandits.policy_bases.posterior_policy import BeliefEstimator
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.maths.gaussian_posterior import factor_of, mean_of
from glbandits.maths.gaussian import best_with_bonus, draw_with_precision
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.philox import normal
from glbandits.maths.vectors import best_arm, point_mass
from glbandits.records import Floats, Generator

DRAW, BONUS, PERTURBATION = 0.0, 1.0, 2.0
"""The rules, as compiled code knows them."""


@dataclass(frozen=True, kw_only=True)
class OnlineLaplace(BeliefEstimator):
    """A Gaussian belief N(theta, H^-1) moved by each reward on its own.

    A reward y of x moves theta to the minimum of (1/2)||theta - theta_t||^2_H + m(x'theta) - y x'theta, which is one
    root of one equation, and adds its curvature there: H += mu'(x'theta) xx'. For the identity link that is exact
    Bayesian regression. O(d^2) to learn, no history, nothing to tune but the prior and the exploration.

    Args:
        link: mu, any link.
        rule: "fp" adds one shared normal number times each arm's own uncertainty, a Z ||x|| in H^-1 (feature
            perturbation); "ucb" adds a ||x|| in H^-1; "ts" draws theta from N(theta, a^2 H^-1).
        exploration: a.
        prior_precision: H before the first reward, times I.

    >>> from glbandits import Bandit, OnlineLaplace
    >>> bandit = Bandit(OnlineLaplace(rule="ucb"), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 0.0)
    >>> bandit.choose([[1.0, 0.0], [0.0, 1.0]])
    1
    """

    name: ClassVar[str] = "online-laplace"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2 (ts: d^2 + K d)",
        learn="d^2",
        memory="d^2",
        guarantee="none known",
        use_when="a first choice at constant cost: nothing to tune",
        page="online-laplace",
    )

    link: str | Link = "logistic"
    rule: Literal["fp", "ucb", "ts"] = "fp"
    exploration: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        find_link(self.link)
        settle(self, exploration=number("exploration", self.exploration, at_least=0))
        self.numbers(1)

    def numbers(self, dim: int) -> Floats:
        """The exploration scale and the rule."""
        return np.array([self.exploration, look_up("rule", self.rule, {"ts": DRAW, "ucb": BONUS, "fp": PERTURBATION})])

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """By the rule: a draw of theta, or a bonus with a fixed or a random sign and size."""
        scale, rule, dim = settings[0], settings[1], arms.shape[1]
        theta, R = mean_of(state, dim), factor_of(state, dim)
        if rule == DRAW:
            return best_arm(arms, draw_with_precision(theta, R, scale, rng))
        if rule == PERTURBATION:
            scale *= normal(rng)
        return best_with_bonus(arms, theta, R, scale)

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Exact for the fixed bonus only."""
        dim = arms.shape[1]
        point_mass(out, best_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings[0]))
        return bool(settings[1] == BONUS)
