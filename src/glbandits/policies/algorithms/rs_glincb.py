"""RS-GLinCB: a UCB rule that is updated rarely (Sawarni, Das, Barman and Sinha, 2024)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import inverse_norm, log_determinant, rank_one_update
from glbandits.maths.fitting.fit_in_ball import fit_in_ball
from glbandits.maths.fitting.observation_history import labelled, remember, rows_labelled
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_and_norm
from glbandits.maths.vectors import copy_to, dot, point_mass
from glbandits.policies.contract import (
    AnyLink,
    Bounds,
    Grid,
    NonNegative,
    Policy,
    PolicyInfo,
    Positive,
    StateLayout,
)
from glbandits.policies.shared.shared_settings import EXPLORATIONS

LAYOUT = StateLayout()
theta_warm_of, theta_of = LAYOUT.vector("theta_warm"), LAYOUT.vector("theta")
"""The estimate from the warm-up set, and the estimate that scores arms."""
V_of, H_of, H_played_of = LAYOUT.factor("V"), LAYOUT.factor("H"), LAYOUT.factor("H_played")
"""Cholesky factors: of V, the matrix of the warm-up set; of H, that of the other rewards; of H at the last switch."""
history_at = LAYOUT.history(extra=1)
WARM_UP_SET, OTHERS = 0.0, 1.0
"""Labels of the observations in the history."""


class RsGlincb(Policy):
    """A UCB rule that refits theta only when det H has doubled since the last fit.

    1. If an arm has ||x||^2_{V^-1} above a threshold, pull the arm with the largest one. Its reward joins the warm-up
       set: V += xx', and theta_warm = maximum likelihood estimate from that set.
    2. Otherwise eliminate every arm whose upper bound x'theta_warm + b ||x||_{V^-1} is below the lower bound
       x'theta_warm - b ||x||_{V^-1} of another arm. Of the rest pull the arm with the largest
       x'theta + c ||x||_{H_played^-1}. Then H += (mu'(x'theta_warm)/e) xx'.
    3. If det H has doubled since the last switch, switch: H_played = H, and theta = maximum likelihood estimate from
       the rewards of line 2.

    A reward belongs to line 1 or 2 by its x and V alone, so rewards may be delayed. O(K d^2) to choose. O(d^2) to
    learn, except for the fits: O(d log T) in line 3, and one for each reward of the warm-up set.

    Args:
        link: mu, any link; the theory is for rewards in [0, 1].
        exploration: c.
        elimination: b.
        threshold: the threshold of the squared norm in line 1. The default suits features with norms up to 1; line 1 is
            never used if it is above ||x||^2 / prior_precision for every arm.
        prior_precision: the initial V and H are this times I. It is also the ridge penalty of the fits.
        growth: the factor of det H that triggers a switch in line 3.
        bound: S. Both estimates are constrained to ||theta|| <= S.

    The paper's constants explore far too much: docs/theory/rs-glincb.md has them.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import RsGlincb
    >>> bandit = Bandit(RsGlincb(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0]] * 40, [1.0] * 30 + [0.0] * 10)
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "rs-glincb"
    layout: ClassVar[StateLayout] = LAYOUT
    compiled_settings: ClassVar[tuple[str, ...] | None] = (
        "exploration",
        "elimination",
        "threshold",
        "prior_precision",
        "bound",
        "log_growth",
    )
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="d^2, and d log T fits of t d^2", memory="t d",
        guarantee="d sqrt(mu'* T)", use_when="updates must be rare, for example because deploying one is costly",
    )  # fmt: skip

    link: AnyLink = "logistic"
    exploration: NonNegative = 2.0
    elimination: NonNegative = 2.0
    threshold: Positive = 0.3
    prior_precision: Positive = 1.0
    growth: Annotated[float, Bounds(above=1)] = 2.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0

    def log_growth(self, dim: int) -> float:
        """The increase of log det H that triggers a switch."""
        return math.log(self.growth)

    def init(self, dim: int) -> Floats:
        precision = self.prior_precision
        return LAYOUT.allocate(dim, V=precision, H=precision, H_played=precision)

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        return arm_by_lines(state, settings, arms)

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        point_mass(out, arm_by_lines(state, settings, arms))
        return True

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Add the reward to its set, and refit the estimate of the set if that is due."""
        dim = x.shape[0]
        length = inverse_norm(V_of(state, dim), x, np.empty(dim))
        to_warm_up = length * length >= settings.threshold
        label = WARM_UP_SET if to_warm_up else OTHERS
        state = remember(state, history_at(dim), labelled(x, label), reward)
        H_now, H_then = H_of(state, dim), H_played_of(state, dim)
        if to_warm_up:
            rank_one_update(V_of(state, dim), 1.0, x)
        else:
            rank_one_update(H_now, link.slope(dot(x, theta_warm_of(state, dim))) / math.e, x)
        switch = log_determinant(H_now) - log_determinant(H_then) > settings.log_growth
        if to_warm_up or switch:
            theta = theta_warm_of(state, dim) if to_warm_up else theta_of(state, dim)
            rows, ridge = rows_labelled(state, history_at(dim), dim, label, label), settings.prior_precision
            copy_to(theta, fit_in_ball(rows.features, rows.rewards, rows.counts, ridge, settings.bound, theta, link))
        if switch:
            for i in range(dim):
                copy_to(H_then[i], H_now[i])
        return state


@jittable
def arm_by_lines(state: Floats, settings: Any, arms: Floats) -> int:
    """Choose by line 1 or 2."""
    K, dim = arms.shape
    V, theta_warm, scratch, upper = V_of(state, dim), theta_warm_of(state, dim), np.empty(dim), np.empty(K)
    widest, largest, best_lower = 0, -np.inf, -np.inf
    for a in range(K):
        score, length = score_and_norm(arms, a, theta_warm, V, scratch)
        if length > largest:
            widest, largest = a, length
        upper[a] = score + settings.elimination * length
        best_lower = max(best_lower, score - settings.elimination * length)
    if largest * largest >= settings.threshold:
        return widest
    H, theta, best, best_score = H_played_of(state, dim), theta_of(state, dim), 0, -np.inf
    for a in range(K):
        if upper[a] >= best_lower:
            score, length = score_and_norm(arms, a, theta, H, scratch)
            score += settings.exploration * length
            if score > best_score:
                best, best_score = a, score
    return best
