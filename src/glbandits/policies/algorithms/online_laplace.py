"""Online Laplace: a one-pass Gaussian posterior without a step size.

The estimator is that of the code of Faury et al. (2022).
"""

from typing import Any, ClassVar, Literal

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.line_order import ZRange
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import draw_with_precision, score_lines, score_with_bonus
from glbandits.policies.contract import AnyLink, Grid, NonNegative, Policy, PolicyInfo
from glbandits.policies.shared.posterior_policy import PosteriorPolicy, factor_of, mean_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


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

    >>> from glbandits import Bandit
    >>> from glbandits.policies import OnlineLaplace
    >>> bandit = Bandit(OnlineLaplace(rule="ucb"), dim=2, seed=1)
    >>> bandit.learn([1.0, 0.0], 0.0)
    >>> bandit.choose([[1.0, 0.0], [0.0, 1.0]])
    1
    """

    name: ClassVar[str] = "online-laplace"
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration",)
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2 (ts: d^2 + K d)", learn="d^2", memory="d^2",
        guarantee="none known", use_when="constant cost with one setting to tune, the exploration",
    )  # fmt: skip

    link: AnyLink = "logistic"
    rule: Literal["fp", "ucb", "ts"] = "fp"
    exploration: NonNegative = 1.0

    def implementation(self, dim: int) -> type[Policy]:
        return {"fp": OnlineLaplace, "ucb": OnlineLaplaceUcb, "ts": OnlineLaplaceTs}[self.rule]

    @staticmethod
    def lines(
        state: Floats, settings: Any, arms: Floats, link: LinkFunctions, levels: Floats, slopes: Floats
    ) -> ZRange:
        """Write x'theta and a ||x||_{H^-1} of each arm. Z is standard normal."""
        dim = arms.shape[1]
        score_lines(arms, mean_of(state, dim), factor_of(state, dim), settings.exploration, levels, slopes)
        return ZRange(-np.inf, np.inf, 0.0)


class OnlineLaplaceUcb(OnlineLaplace):
    """Online Laplace with `rule="ucb"`."""

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, mean_of(state, dim), factor_of(state, dim), settings.exploration, out)


class OnlineLaplaceTs(OnlineLaplace):
    """Online Laplace with `rule="ts"`."""

    draws_anew: ClassVar[bool] = True

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Draw theta from the posterior."""
        return draw_with_precision(mean_of(state, dim), factor_of(state, dim), settings.exploration, rng)
