"""GLM-TSL: Thompson sampling from a Laplace approximation (Kveton et al., 2020)."""

from typing import Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.posteriors.gaussian_posterior import draw_with_precision, inverse_norms
from glbandits.policies.contract import Grid, NonNegative, PolicyInfo
from glbandits.policies.shared.mle_policy import MlePolicy, factor_of, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS, FACTORS


class GlmTsl(MlePolicy):
    """Draw theta ~ N(theta_hat, a^2 H^-1) for each decision, and pull the largest x'theta.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood estimate from all rewards; H = Hessian of the loss there. H is
       recomputed, because every weight mu'(x'theta_hat) has changed. Draw theta, and pull the arm.

    The settings and the learning are those of `MlePolicy`. exploration is a. O(d^2 + K d) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import GlmTsl
    >>> bandit = Bandit(GlmTsl(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-tsl"
    draws_anew: ClassVar[bool] = True
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "ridge", "prior_precision", "tau")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="d^2 + K d", learn="t d^2", memory="t d", page="randomised-fits",
        guarantee="d sqrt(T log K)", use_when="Thompson sampling, if there is time for an exact fit each round",
    )  # fmt: skip

    exploration: NonNegative = 0.3

    def score_variances(self, state: Floats, dim: int, arms: Any) -> Floats | None:
        return inverse_norms(factor_of(state, dim), arms)

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Draw theta from the Laplace approximation."""
        return draw_with_precision(theta_of(state, dim), factor_of(state, dim), settings.exploration, rng)
