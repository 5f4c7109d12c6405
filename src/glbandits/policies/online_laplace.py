"""Online Laplace: one pass, full curvature, no step size (the estimator in the code of Faury et al., 2022)."""

from typing import Any, ClassVar, Literal

from glbandits.maths.gaussian import best_perturbed, best_with_bonus, draw_with_precision, perturbed_probabilities
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import normal
from glbandits.maths.vectors import best_arm, point_mass
from glbandits.policy import AnyLink, Grid, NonNegative, PolicyInfo
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.policy_bases.posterior_policy import PosteriorPolicy, factor_of, mean_of
from glbandits.records import Floats, Generator

FP, UCB, TS = range(3)
"""The rules, in the order in which `rule` declares them: compiled code reads their index."""


class OnlineLaplace(PosteriorPolicy):
    """A Gaussian posterior N(theta, H^-1), updated by each reward on its own.

    A reward y of x moves theta to the minimum of (1/2)||theta - theta_t||^2_H + m(x'theta) - y x'theta, which is one
    root of one equation, and adds its curvature there: H += mu'(x'theta) xx'. For the identity link that is exact
    Bayesian regression. O(d^2) to learn, no history, nothing to tune but the prior and the exploration.

    Args:
        link: mu, any link.
        rule: "fp" adds one shared normal number times each arm's own uncertainty, a Z ||x||_{H^-1} (feature
            perturbation), with exact probabilities; "ucb" adds a ||x||_{H^-1}; "ts" draws theta from
            N(theta, a^2 H^-1), and its probabilities have no exact form.
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
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2 (ts: d^2 + K d)", learn="d^2", memory="d^2",
        guarantee="none known", use_when="a first choice at constant cost: nothing to tune",
    )  # fmt: skip

    link: AnyLink = "logistic"
    rule: Literal["fp", "ucb", "ts"] = "fp"
    exploration: NonNegative = 1.0

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """By the rule: one perturbation for all arms, a bonus, or a draw of theta."""
        scale, dim = settings.exploration, arms.shape[1]
        theta, R = mean_of(state, dim), factor_of(state, dim)
        if settings.rule == FP:
            return best_perturbed(arms, theta, R, scale, normal(rng))
        if settings.rule == UCB:
            return best_with_bonus(arms, theta, R, scale)
        return best_arm(arms, draw_with_precision(theta, R, scale, rng))

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Exact for "fp" and "ucb"; a draw of theta has no exact form."""
        scale, dim = settings.exploration, arms.shape[1]
        theta, R = mean_of(state, dim), factor_of(state, dim)
        if settings.rule == FP:
            perturbed_probabilities(arms, theta, R, scale, out)
        else:
            point_mass(out, best_with_bonus(arms, theta, R, scale))
        return bool(settings.rule != TS)
