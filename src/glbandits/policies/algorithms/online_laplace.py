"""Online Laplace: a one-pass Gaussian posterior without a step size.

The estimator is that of the code of Faury et al. (2022).
"""

from typing import Any, ClassVar, Literal

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import normal
from glbandits.maths.posteriors.gaussian_posterior import (
    best_perturbed,
    best_with_bonus,
    draw_with_precision,
    perturbed_probabilities,
)
from glbandits.maths.vectors import best_arm, point_mass
from glbandits.policies.contract import AnyLink, Grid, NonNegative, PolicyInfo
from glbandits.policies.shared.posterior_policy import PosteriorPolicy, factor_of, mean_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS

FP, UCB, TS = range(3)
"""The indices of the rules, in the order of the setting `rule`: compiled code reads a choice as its index."""


class OnlineLaplace(PosteriorPolicy):
    """A Gaussian posterior N(theta, H^-1), which each reward updates once; UCB, TS or FP rule.

    A reward y of x moves theta to the minimum of (1/2)||theta - theta_t||^2_H + m(x'theta) - y x'theta, where m is the
    antiderivative of mu. The minimum is the root of one scalar equation. Then H += mu'(x'theta) xx'. For the identity
    link this is exact Bayesian regression. O(d^2) to learn. The state stores no observations, and only the prior and
    the exploration have to be tuned.

    Args:
        link: mu, any link.
        rule: "fp" (feature perturbation) adds a Z ||x||_{H^-1}, with one normal Z for all arms, and has exact
            probabilities. "ucb" adds a ||x||_{H^-1}. "ts" draws theta from N(theta, a^2 H^-1), and its probabilities
            have no exact form.
        exploration: a.
        prior_precision: the initial H is this times I.

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
        guarantee="none known", use_when="constant cost with one setting to tune, the exploration",
    )  # fmt: skip

    link: AnyLink = "logistic"
    rule: Literal["fp", "ucb", "ts"] = "fp"
    exploration: NonNegative = 1.0

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Choose by the rule: one perturbation for all arms, a bonus, or a draw of theta."""
        scale, dim = settings.exploration, arms.shape[1]
        theta, R = mean_of(state, dim), factor_of(state, dim)
        if settings.rule == FP:
            return best_perturbed(arms, theta, R, scale, normal(rng))
        if settings.rule == UCB:
            return best_with_bonus(arms, theta, R, scale)
        return best_arm(arms, draw_with_precision(theta, R, scale, rng))

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Write exact probabilities for "fp" and "ucb"; "ts" has no exact form."""
        scale, dim = settings.exploration, arms.shape[1]
        theta, R = mean_of(state, dim), factor_of(state, dim)
        if settings.rule == FP:
            perturbed_probabilities(arms, theta, R, scale, out)
        else:
            point_mass(out, best_with_bonus(arms, theta, R, scale))
        return bool(settings.rule != TS)
