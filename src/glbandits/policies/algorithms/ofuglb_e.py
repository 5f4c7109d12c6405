"""OFUGLB-e: UCB with an estimate in a ball, from all rewards (Lee, Yun and Jun, 2024)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import jittable
from glbandits.maths.fitting.fit_in_ball import refit_in_ball
from glbandits.maths.fitting.likelihood import hessian_factor
from glbandits.maths.fitting.observation_history import history, remember
from glbandits.maths.fitting.warm_fit import absorb
from glbandits.maths.links import LinkFunctions, find_link, self_concordance
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.policies.contract import Bounds, Grid, NonNegative, NonNegativeInt, PolicyInfo, Positive, derived
from glbandits.policies.shared.mle_policy import LEARNED, MlePolicy, factor_of, history_at, memory_of, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class OfuglbE(MlePolicy):
    """Pull the largest x'theta_hat + c ||x||_{H^-1}, with theta_hat the best fit in a ball.

    theta_hat is the maximum likelihood estimate from all rewards under ||theta|| <= S, and
    H = lambda I + sum mu'(x_s'theta_hat) x_s x_s'. With exploration=None the width is the paper's: after n rewards
    c^2 = 2 (1 + R S)(1 + beta^2), lambda = (1 + R S)/(2 S^2), beta^2 = log(1/delta) + d log max(e, 2 e S L/d). R bounds
    |mu''|/mu'. L = (M + 2 S mu'_max) n is the Lipschitz constant of the loss, for rewards within M of their mean.

    The settings are those of `MlePolicy`. exploration is c, and bound is S. By default there is no warm-up, and the
    small ridge only makes the estimate unique. O(K d^2) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit, OfuglbE
    >>> bandit = Bandit(OfuglbE(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ofuglb-e"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="t d^2", memory="t d",
        guarantee="d sqrt(mu'* T)", use_when="a reference for comparisons: all data, the tightest known ellipsoid",
    )  # fmt: skip

    exploration: NonNegative | None = 3.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    warm_up: NonNegativeInt | None = 0
    ridge: Positive = 1e-6
    prior_precision: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        link = find_link(self.link)
        if self.exploration is None and math.isinf(link.highest_reward) and self.noise > 1.0:
            raise InvalidInput(
                f"the theory's width for the {link.name} link needs noise of at most 1; got noise={self.noise:g}. "
                "Rescale the rewards, or set exploration to a number."
            )

    @derived
    def scale(self, dim: int) -> float:
        """The width c; NaN for the theory's, which grows with t."""
        return math.nan if self.exploration is None else self.exploration

    @derived
    def precision(self, dim: int) -> float:
        """The prior precision lambda; with exploration=None the theory's."""
        if self.exploration is not None:
            return self.prior_precision
        return (1.0 + self.bound * self.concordance(dim)) / (2.0 * self.bound**2)

    @derived
    def concordance(self, dim: int) -> float:
        """R, the largest |mu''|/mu' over |z| <= S."""
        return self_concordance(find_link(self.link), self.bound)

    @derived
    def reward_range(self, dim: int) -> float:
        """M, the range of the rewards; infinity if they are unbounded."""
        link = find_link(self.link)
        return link.highest_reward - link.lowest_reward

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_of(state, dim), factor_of(state, dim), width(state, settings, dim), out)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, refit theta_hat in the ball, and factorise the Hessian there."""
        dim, ridge, bound = x.shape[0], settings.ridge, settings.bound
        state = remember(state, history_at(dim), x, reward)
        state[LEARNED] += 1.0
        if state[LEARNED] >= settings.tau:
            rows, theta, memory = history(state, history_at(dim), dim), theta_of(state, dim), memory_of(state, dim)
            absorb(theta, memory, x, reward, link)
            refit_in_ball(rows.features, rows.rewards, rows.counts, ridge, bound, theta, memory, link)
            hessian_factor(factor_of(state, dim), rows.features, rows.counts, settings.precision, theta, link)
        return state


@jittable
def width(state: Floats, settings: Any, dim: int) -> float:
    """The current width c.

    If rewards are unbounded, M is a high-probability bound of all noise so far.
    """
    if settings.scale >= 0.0:
        return float(settings.scale)
    bound, failure, M, learned = settings.bound, settings.failure, settings.reward_range, state[LEARNED]
    if not np.inf > M:
        M = settings.noise * math.sqrt(2.0 * math.log(2.0 * ((learned + 1.0) * (learned + 1.0)) / failure))
    steepest = (M + 2.0 * bound * settings.largest_slope) * learned
    beta_squared = math.log(1.0 / failure) + dim * math.log(max(math.e, 2.0 * math.e * bound * steepest / dim))
    return math.sqrt(2.0 * (1.0 + settings.concordance * bound) * (1.0 + beta_squared))
