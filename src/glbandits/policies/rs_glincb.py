"""RS-GLinCB: a policy that changes rarely (Sawarni, Das, Barman and Sinha, 2024)."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from glbandits.numba_support import borrowed, jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number, whole
from glbandits.policy_bases.confidence import Width
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.maths.cholesky import inverse_norm, log_determinant, update
from glbandits.maths.constrained import fit_in_ball
from glbandits.maths.observation_history import first_history, history_fits, labelled, remember, rows_labelled
from glbandits.maths.links import Link, LinkFunctions, find_link, slope_range
from glbandits.maths.vectors import copy_to, dot, point_mass
from glbandits.records import Floats, Generator

THETA_WARM, THETA = 0, 1
"""The state begins with vectors: the estimate from the warm-up set, and the one that is played."""
V, H, H_PLAYED = 0, 1, 2
"""Then factors: of the warm-up set's matrix, of the other rewards' matrix, and of that as it was at the last switch."""
BONUS, ELIMINATION, THRESHOLD, GROWTH, PRECISION, BOUND = 0, 1, 2, 3, 4, 5
"""The settings in compiled code; THRESHOLD is of the squared norm, GROWTH of the logarithm of the determinant."""
WARM_UP_SET, OTHERS = 0.0, 1.0
"""The labels of the history."""


class Constants(NamedTuple):
    """What the algorithm compares with and adds."""

    bonus: float
    elimination: float
    threshold: float
    precision: float


@dataclass(frozen=True, kw_only=True)
class RsGlincb(Width):
    """Fit again only when there is much more to know than at the last fit; explore where nothing is known at all.

    1. If some arm has ||x||^2 in V^-1 above a threshold, pull the one with the largest. Its reward belongs to the
       warm-up set: V += xx', and theta_warm = maximum likelihood on that set.
    2. Else drop the arms whose x'theta_warm + b ||x|| in V^-1 is below another's x'theta_warm - b ||x||, and pull the
       largest x'theta + c ||x|| in the inverse of H as it was at the last switch.
       Then H += (mu'(x'theta_warm)/e) xx'.
    3. When det H has doubled since the last switch: switch, theta = maximum likelihood on the rewards of line 2.

    Which set a reward belongs to depends on its x and on V, so rewards may come late. O(K d^2) to choose, O(d^2) to
    learn but for O(d log T) fits of line 3 and those of the warm-up set.

    Args:
        link: mu, any link; the theory is for rewards in [0, 1].
        exploration: c; None for the paper's constants in place of this and of the next three settings.
        elimination: b.
        threshold: of the squared norm in line 1.
        prior_precision: V and H before the first reward, times I, and the ridge of the fits.
        growth: the factor of line 3.
        bound: S; both estimates stay in ||theta|| <= S.
        horizon: T, for the paper's constants only.
        failure: delta, likewise.

    >>> from glbandits import Bandit, RsGlincb
    >>> bandit = Bandit(RsGlincb(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0]] * 40, [1.0] * 30 + [0.0] * 10)
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "rs-glincb"
    keeps_history: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="d^2, and d log T fits of t d^2",
        memory="t d",
        guarantee="d sqrt(mu'* T)",
        use_when="the policy must change rarely: each switch is costly to deploy",
        page="rs-glincb",
    )

    link: str | Link = "logistic"
    exploration: float | None = 2.0
    elimination: float = 2.0
    threshold: float = 1.0
    prior_precision: float = 1.0
    growth: float = 2.0
    bound: float = 5.0
    horizon: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        find_link(self.link)
        settle(
            self,
            elimination=number("elimination", self.elimination, at_least=0),
            threshold=number("threshold", self.threshold, above=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
            growth=number("growth", self.growth, above=1),
        )
        if self.horizon is not None:
            settle(self, horizon=whole("horizon", self.horizon, at_least=2))
        self.constants(1)

    def constants(self, dim: int) -> Constants:
        """The settings, or the paper's constants for rewards in [0, 1]."""
        if self.exploration is not None:
            return Constants(self.exploration, self.elimination, self.threshold, self.prior_precision)
        link = find_link(self.link)
        if self.horizon is None or link.highest_reward - link.lowest_reward > 1.0:
            raise InvalidInput(
                "exploration=None is the theory's width, which needs a horizon and a link for rewards in [0, 1]; "
                f"got horizon={self.horizon} and {link}"
            )
        log = dim * math.log(self.horizon / self.failure)
        least, _ = slope_range(link, self.bound)
        gamma, kappa = 25.0 * self.bound * math.sqrt(log), 1.0 / least
        return Constants(150.0 * math.sqrt(log), gamma * math.sqrt(kappa), 1.0 / (gamma * gamma * kappa), log)

    def init(self, dim: int) -> Floats:
        """Nothing learned."""
        factor = math.sqrt(self.constants(dim).precision) * np.eye(dim)
        return np.concatenate([np.zeros(2 * dim), np.tile(factor.ravel(), 3), first_history(dim + 1)])

    def numbers(self, dim: int) -> Floats:
        """As the constants above name them."""
        c = self.constants(dim)
        return np.array([c.bonus, c.elimination, c.threshold, math.log(self.growth), c.precision, self.bound])

    def fits(self, state: Floats, dim: int) -> bool:
        """Two vectors, three factors, and a history behind them."""
        if state.ndim != 1 or not np.isfinite(state).all() or not history_fits(state, history_at(dim), dim + 1):
            return False
        return all(bool((np.diagonal(factor_of(state, dim, which)) > 0.0).all()) for which in (V, H, H_PLAYED))

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Lines 1 and 2."""
        return choice(borrowed(state), settings, borrowed(arms))

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Give the reward to its set, and fit what must be fitted."""
        dim = x.shape[0]
        to_warm_up = inverse_norm(factor_of(state, dim, V), x, np.empty(dim)) ** 2 >= settings[THRESHOLD]
        label = WARM_UP_SET if to_warm_up else OTHERS
        state = remember(state, history_at(dim), labelled(x, label), reward)
        if to_warm_up:
            update(factor_of(state, dim, V), 1.0, x)
        else:
            weight = link.slope(dot(x, vector(state, dim, THETA_WARM))) / math.e
            update(factor_of(state, dim, H), weight, x)
        H_now, H_then = factor_of(state, dim, H), factor_of(state, dim, H_PLAYED)
        switch = log_determinant(H_now) - log_determinant(H_then) > settings[GROWTH]
        if to_warm_up or switch:
            theta = vector(state, dim, THETA_WARM if to_warm_up else THETA)
            rows, ridge, bound = (
                rows_labelled(state, history_at(dim), dim, label, label),
                settings[PRECISION],
                settings[BOUND],
            )
            copy_to(theta, fit_in_ball(rows.features, rows.rewards, rows.counts, ridge, bound, theta, link))
        if switch:
            for i in range(dim):
                copy_to(H_then[i], H_now[i])
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on one arm."""
        point_mass(out, choice(borrowed(state), settings, borrowed(arms)))
        return True


@jittable
def choice(state: Floats, settings: Floats, arms: Floats) -> int:
    """Lines 1 and 2."""
    K, dim = arms.shape
    scratch, upper = np.empty(dim), np.empty(K)
    widest, largest, floor = 0, -np.inf, -np.inf
    for a in range(K):
        length, score = (
            inverse_norm(factor_of(state, dim, V), arms[a], scratch),
            dot(arms[a], vector(state, dim, THETA_WARM)),
        )
        if length > largest:
            widest, largest = a, length
        upper[a] = score + settings[ELIMINATION] * length
        floor = max(floor, score - settings[ELIMINATION] * length)
    if largest**2 >= settings[THRESHOLD]:
        return widest
    best, best_score = 0, -np.inf
    for a in range(K):
        if upper[a] >= floor:
            length = inverse_norm(factor_of(state, dim, H_PLAYED), arms[a], scratch)
            score = dot(arms[a], vector(state, dim, THETA)) + settings[BONUS] * length
            if score > best_score:
                best, best_score = a, score
    return best


@jittable
def vector(state: Floats, dim: int, which: int) -> Floats:
    """One of the estimates."""
    return state[which * dim : (which + 1) * dim]


@jittable
def factor_of(state: Floats, dim: int, which: int) -> Floats:
    """One of the factors."""
    place = 2 * dim + which * dim * dim
    return state[place : place + dim * dim].reshape(dim, dim)


@jittable
def history_at(dim: int) -> int:
    """Where the history begins."""
    return 2 * dim + 3 * dim * dim
