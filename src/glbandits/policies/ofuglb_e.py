"""OFUGLB-e: optimism in an ellipsoid round the norm-constrained estimate (Lee, Yun and Jun, 2024)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number
from glbandits.policy_bases.confidence import BY_THEORY
from glbandits.policy_bases.grids import EXPLORATIONS
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
from glbandits.maths.constrained import fit_in_ball
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.observation_history import history, remember
from glbandits.maths.likelihood import hessian_factor
from glbandits.maths.links import LinkFunctions, find_link, self_concordance, slope_range
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import copy_to, point_mass
from glbandits.records import Floats, Generator

BOUND, NOISE, FAILURE, LARGEST_SLOPE, REWARD_RANGE, CONCORDANCE = 4, 5, 6, 7, 8, 9
"""More settings in compiled code."""


@dataclass(frozen=True, kw_only=True)
class OfuglbE(MleEstimator):
    """Pull the largest x'theta_hat + c ||x|| in H^-1, with theta_hat the best theta of ||theta|| <= S for all rewards.

    H = lambda I + sum mu'(x_s'theta_hat) x_s x_s'. With exploration=None the width is the paper's: after n rewards
    c^2 = 2 (1 + R S)(1 + beta^2), lambda = (1 + R S)/(2 S^2), beta^2 = log(1/delta) + d log max(e, 2 e S L/d), where
    R bounds |mu''|/mu' and L = (M + 2 S mu'_max) n is how steep the loss can be, for rewards within M of their mean.

    Settings are `MleEstimator`'s; exploration is c, bound is S. There is no warm-up by default, and a ridge only to
    make the estimate unique. O(K d^2) to choose, O(t d^2) to learn.

    >>> from glbandits import Bandit, OfuglbE
    >>> bandit = Bandit(OfuglbE(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ofuglb-e"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="t d^2",
        memory="t d",
        guarantee="d sqrt(mu'* T)",
        use_when="a ceiling to compare with: all data, the tightest ellipsoid",
        page="ofuglb-e",
    )

    exploration: float | None = 3.0
    bound: float = 5.0
    warm_up: int | None = 0
    ridge: float = 1e-6
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, ridge=number("ridge", self.ridge, above=0))
        link = find_link(self.link)
        if self.exploration is None and math.isinf(link.highest_reward) and self.noise > 1.0:
            raise InvalidInput(
                f"the theory's width for the {link.name} link is for noise of at most 1; got noise={self.noise:g}. "
                "Divide the rewards, or give exploration a scale"
            )

    def scale(self, dim: int) -> float:
        """The width, or the word for the theory's, which grows with t."""
        return BY_THEORY if self.exploration is None else self.exploration

    def precision(self) -> float:
        """Lambda: the theory's if the width is."""
        if self.exploration is not None:
            return self.prior_precision
        return (1.0 + self.bound * self_concordance(find_link(self.link), self.bound)) / (2.0 * self.bound**2)

    def numbers(self, dim: int) -> Floats:
        """The estimator's, and what the ball and the theory's width need."""
        link = find_link(self.link)
        _, steepest = slope_range(link, self.bound)
        reward_range = link.highest_reward - link.lowest_reward
        more = [self.bound, self.noise, self.failure, steepest, reward_range, self_concordance(link, self.bound)]
        return np.append(super().numbers(dim), more)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during a warm-up, then the most optimistic one."""
        if state[LEARNED] < settings[TAU]:
            return any_index(rng, arms.shape[0])
        return most_optimistic(state, settings, arms)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, fit in the ball, and take the curvature there."""
        dim = x.shape[0]
        state = remember(state, history_at(dim), x, reward)
        state[LEARNED] += 1.0
        if state[LEARNED] >= settings[TAU]:
            rows, theta = history(state, history_at(dim), dim), state[THETA : THETA + dim]
            ridge, bound = settings[RIDGE], settings[BOUND]
            copy_to(theta, fit_in_ball(rows.features, rows.rewards, rows.counts, ridge, bound, theta, link))
            hessian_factor(factor_of(state, dim), rows.features, rows.counts, settings[PRIOR_PRECISION], theta, link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during a warm-up, then all on the most optimistic arm."""
        if state[LEARNED] < settings[TAU]:
            out[:] = 1.0 / arms.shape[0]
        else:
            point_mass(out, most_optimistic(state, settings, arms))
        return True


@jittable
def most_optimistic(state: Floats, settings: Floats, arms: Floats) -> int:
    """The arm with the largest x'theta + c ||x||."""
    dim = arms.shape[1]
    return best_with_bonus(arms, state[THETA : THETA + dim], factor_of(state, dim), width(state, settings, dim))


@jittable
def width(state: Floats, settings: Floats, dim: int) -> float:
    """The width c, now. Where rewards have no range, M bounds all their noises so far."""
    if settings[EXPLORATION] >= 0.0:
        return float(settings[EXPLORATION])
    bound, failure, M, learned = settings[BOUND], settings[FAILURE], settings[REWARD_RANGE], state[LEARNED]
    if not np.inf > M:
        M = settings[NOISE] * math.sqrt(2.0 * math.log(2.0 * (learned + 1.0) ** 2 / failure))
    steepest = (M + 2.0 * bound * settings[LARGEST_SLOPE]) * learned
    beta_squared = math.log(1.0 / failure) + dim * math.log(max(math.e, 2.0 * math.e * bound * steepest / dim))
    return math.sqrt(2.0 * (1.0 + settings[CONCORDANCE] * bound) * (1.0 + beta_squared))
