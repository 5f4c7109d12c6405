"""GLM-UCB: maximum likelihood each round, and an optimistic bonus on the reward (Filippi et al., 2010)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid
from glbandits.policy_bases.confidence import BY_THEORY
from glbandits.policy_bases.grids import EXPLORATIONS, FACTORS
from glbandits.policy_bases.mle_policy import (
    EXPLORATION,
    LEARNED,
    PRIOR_PRECISION,
    RIDGE,
    TAU,
    THETA,
    MleEstimator,
    factor_of,
    history_at,
)
from glbandits.maths.cholesky import update
from glbandits.maths.constrained import match_means_in_ball
from glbandits.maths.gaussian import best_mean_with_bonus, matched_width
from glbandits.maths.observation_history import history, refit, remember
from glbandits.maths.links import LinkFunctions, find_link, slope_range
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import copy_to, point_mass
from glbandits.records import Floats, Generator

BOUND, NOISE, FAILURE, LEAST_SLOPE, LARGEST_SLOPE = 4, 5, 6, 7, 8
"""More settings in compiled code."""


@dataclass(frozen=True, kw_only=True)
class GlmUcb(MleEstimator):
    """Pull the largest mu(x'theta) + rho ||x|| in M^-1, where M = lambda I + sum xx' and ||theta|| <= S.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood on all rewards. If ||theta_hat|| > S, theta is the point of that ball
       whose sum of mu(x_s'theta) x_s is nearest to theta_hat's in the norm of M^-1; otherwise theta = theta_hat.
    3. The bonus is added to the expected reward, not to the score as in UCB-GLM.

    Settings are `MleEstimator`'s; exploration is rho, and bound is S. With exploration=None, rho is
    2 (mu'_max/mu'_min) (R sqrt(log(det M / lambda^d) + 2 log(1/delta)) + mu'_min sqrt(lambda) S), and needs no horizon.
    O(K d^2) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit, GlmUcb
    >>> bandit = Bandit(GlmUcb(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-ucb"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="t d^2",
        memory="t d",
        guarantee="d sqrt(T)/kappa",
        use_when="theta* is known to be small; the first of its kind",
        page="glm-ucb",
    )

    exploration: float | None = 1.0
    bound: float = 5.0
    prior_precision: float = 1.0

    def scale(self, dim: int) -> float:
        """Rho, or the word for the theory's, which changes with M."""
        return BY_THEORY if self.exploration is None else self.exploration

    def numbers(self, dim: int) -> Floats:
        """The estimator's, and what the projection and the theory's width need."""
        least, largest = slope_range(find_link(self.link), self.bound)
        settings = np.append(super().numbers(dim), [self.bound, self.noise, self.failure, least, largest])
        if self.exploration is None:  # the ridge that the width is proven for
            settings[RIDGE] = max(self.ridge, least * self.prior_precision)
        return settings

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then the most optimistic one."""
        if state[LEARNED] < settings[TAU]:
            return any_index(rng, arms.shape[0])
        return most_optimistic(state, settings, arms, link)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, add to M, fit again, and bring the estimate into the ball."""
        dim = x.shape[0]
        state = remember(state, history_at(dim), x, reward)
        M = factor_of(state, dim)
        update(M, 1.0, x)
        state[LEARNED] += 1.0
        if state[LEARNED] >= settings[TAU]:
            theta, ridge = state[THETA : THETA + dim], settings[RIDGE]
            refit(state, history_at(dim), theta, ridge, link)
            rows = history(state, history_at(dim), dim)
            copy_to(theta, match_means_in_ball(rows.features, rows.counts, ridge, M, settings[BOUND], theta, link))
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up, then all on the most optimistic arm."""
        if state[LEARNED] < settings[TAU]:
            out[:] = 1.0 / arms.shape[0]
        else:
            point_mass(out, most_optimistic(state, settings, arms, link))
        return True


@jittable
def most_optimistic(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions) -> int:
    """The arm with the largest mu(x'theta) + rho ||x||."""
    dim = arms.shape[1]
    M, rho = factor_of(state, dim), settings[EXPLORATION]
    if rho < 0.0:
        least, prior = settings[LEAST_SLOPE], settings[PRIOR_PRECISION]
        theta_width = matched_width(M, prior, settings[NOISE], settings[FAILURE], least, settings[BOUND])
        rho = settings[LARGEST_SLOPE] * theta_width
    return best_mean_with_bonus(arms, state[THETA : THETA + dim], M, rho, link)
