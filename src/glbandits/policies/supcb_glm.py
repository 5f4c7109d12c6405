"""SupCB-GLM: staged elimination on sets of rewards that do not depend on each other (Li, Lu and Zhou, 2017)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import borrowed, jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number, whole
from glbandits.policy_bases.confidence import Confidence
from glbandits.policy_bases.grids import EXPLORATIONS, FACTORS
from glbandits.policy_bases.warm_up import warm_up_length
from glbandits.maths.cholesky import inverse_norm, update
from glbandits.maths.observation_history import first_history, history_fits, labelled, remember, rows_labelled
from glbandits.maths.likelihood import fit
from glbandits.maths.links import Link, LinkFunctions, find_link, slope_range
from glbandits.maths.philox import any_index
from glbandits.maths.vectors import copy_to, dot, point_mass
from glbandits.records import Floats, Generator

LEARNED, FIRST_STAGE = 0, 1
"""The state: rewards learned; for each stage its theta and the factor of its V; then the history, labelled by stage."""
ALPHA, TAU, STAGES, FINEST, RIDGE = 0, 1, 2, 3, 4
"""The settings in compiled code; FINEST is 1/sqrt T."""
WARM_UP_ROUNDS = 0.0
"""The label of F, the random rounds that every stage uses."""


@dataclass(frozen=True, kw_only=True)
class SupCbGlm(Confidence):
    """Find the arm in stages, each twice as fine as the one before and with rewards of its own.

    1. Pull tau arms at random: the set F. Psi_1 .. Psi_S are empty, S = floor(log2 T).
    2. Each round, from stage s = 1 with all arms, on the rewards of Psi_s and F: theta = maximum likelihood,
       m = x'theta and w = alpha ||x|| in V^-1 of every arm that is left.
       a. If some w > 2^-s, pull the arm with the largest, and put its reward into Psi_s.
       b. Else, if all w <= 1/sqrt T, pull the largest m.
       c. Else keep the arms with m >= max m - 2 2^-s, and go on to stage s + 1.

    Which set a reward belongs to depends on features alone, never on rewards of its own stage: that makes the rewards
    of a stage independent. Here it is found when a reward comes, as the first stage with w > 2^-s for its x, so
    rewards may come late. Such a reward of line b belongs to a later stage than its choice, where the paper discards
    it.

    O(log T K d^2) to choose, O(t d^2) to learn: only the stage that got the reward is fitted again.

    Args:
        link: mu, any link.
        exploration: alpha; None for the theory's (3 R/kappa) sqrt(2 log(T K/delta)), which needs `arms`.
        horizon: T, which sets the number of stages. Play may go on beyond it.
        warm_up_factor: C in tau = floor(C max(log T, d)).
        warm_up: tau itself, instead of warm_up_factor.
        ridge: penalty of the fits; 0 is the paper's.
        prior_precision: V before the first reward, times I.
        arms: K, the most arms in a round; for the theory's alpha only.
        bound: S, for the theory's alpha only.
        noise: R, likewise.
        failure: delta, likewise.

    >>> from glbandits import Bandit, SupCbGlm
    >>> bandit = Bandit(SupCbGlm(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0]], [1.0, 0.9])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "supcb-glm"
    keeps_history: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    card: ClassVar[Card] = Card(
        choose="K d^2 log T",
        learn="t d^2",
        memory="t d + d^2 log T",
        guarantee="sqrt(d T log K), contexts drawn independently",
        use_when="the sharpest rate in K and d is wanted for a proof; it plays poorly",
        page="supcb-glm",
    )

    link: str | Link = "logistic"
    exploration: float | None = 1.0
    horizon: int = 10_000
    warm_up_factor: float = 1.0
    warm_up: int | None = None
    ridge: float = 0.0
    prior_precision: float = 1e-6
    arms: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        find_link(self.link)
        settle(
            self,
            horizon=whole("horizon", self.horizon, at_least=2),
            warm_up_factor=number("warm_up_factor", self.warm_up_factor, above=0, at_most=1e9),
            ridge=number("ridge", self.ridge, at_least=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
        )
        if self.warm_up is not None:
            settle(self, warm_up=whole("warm_up", self.warm_up, at_least=0))
        if self.arms is not None:
            settle(self, arms=whole("arms", self.arms, at_least=1))
        self.alpha()

    def alpha(self) -> float:
        """The width of an arm's interval, in units of its norm."""
        if self.exploration is not None:
            return self.exploration
        if self.arms is None:
            raise InvalidInput(
                "exploration=None is the theory's width, which needs arms, the most arms in a round; got none"
            )
        kappa, _ = slope_range(find_link(self.link), self.bound + 1.0)
        return 3.0 * self.noise / kappa * math.sqrt(2.0 * math.log(self.horizon * self.arms / self.failure))

    def stages(self) -> int:
        """S."""
        return max(1, math.floor(math.log2(self.horizon)))

    def init(self, dim: int) -> Floats:
        """Nothing learned at any stage."""
        factor = math.sqrt(self.prior_precision) * np.eye(dim)
        stage = np.concatenate([np.zeros(dim), factor.ravel()])
        return np.concatenate([[0.0], np.tile(stage, self.stages()), first_history(dim + 1)])

    def numbers(self, dim: int) -> Floats:
        """As the constants above name them."""
        tau = self.warm_up if self.warm_up is not None else warm_up_length(self.warm_up_factor, self.horizon, dim)
        return np.array([self.alpha(), tau, self.stages(), self.horizon**-0.5, self.ridge])

    def fits(self, state: Floats, dim: int) -> bool:
        """A count, the stages and a history behind them."""
        place = history_at(dim, self.stages())
        if state.ndim != 1 or not np.isfinite(state).all() or not history_fits(state, place, dim + 1):
            return False
        factors = [factor_of(state, dim, s) for s in range(1, self.stages() + 1)]
        return bool(state[LEARNED] >= 0.0 and all((np.diagonal(factor) > 0.0).all() for factor in factors))

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Any arm during the warm-up, then by stages."""
        if state[LEARNED] < settings[TAU]:
            return any_index(rng, arms.shape[0])
        return staged_choice(borrowed(state), settings, borrowed(arms))

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Give the reward to all stages during the warm-up, then to the stage it belongs to."""
        dim, stages = x.shape[0], int(settings[STAGES])
        place = history_at(dim, stages)
        state[LEARNED] += 1.0
        if state[LEARNED] <= settings[TAU]:
            state = remember(state, place, labelled(x, WARM_UP_ROUNDS), reward)
            for s in range(1, stages + 1):
                update(factor_of(state, dim, s), 1.0, x)
            stage = 1
        else:
            stage = stage_of(state, settings, x)
            if stage > 0:
                state = remember(state, place, labelled(x, float(stage)), reward)
                update(factor_of(state, dim, stage), 1.0, x)
        if stage > 0 and state[LEARNED] >= settings[TAU]:
            rows, theta = rows_labelled(state, place, dim, WARM_UP_ROUNDS, float(stage)), theta_of(state, dim, stage)
            copy_to(theta, fit(rows.features, rows.rewards, rows.counts, settings[RIDGE], theta, link).theta)
            if state[LEARNED] <= settings[TAU]:  # all stages begin with the estimate from F
                for s in range(2, stages + 1):
                    copy_to(theta_of(state, dim, s), theta)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform during the warm-up, then all on one arm."""
        if state[LEARNED] < settings[TAU]:
            out[:] = 1.0 / arms.shape[0]
        else:
            point_mass(out, staged_choice(borrowed(state), settings, borrowed(arms)))
        return True


@jittable
def staged_choice(state: Floats, settings: Floats, arms: Floats) -> int:
    """Line 2."""
    K, dim = arms.shape
    left, means, scratch = np.ones(K), np.empty(K), np.empty(dim)
    width, best = 1.0, 0
    for s in range(1, int(settings[STAGES]) + 1):
        width *= 0.5
        theta, V = theta_of(state, dim, s), factor_of(state, dim, s)
        best, best_mean, widest, largest = 0, -np.inf, 0, -np.inf
        for a in range(K):
            if left[a] > 0.0:
                means[a] = dot(arms[a], theta)
                w = settings[ALPHA] * inverse_norm(V, arms[a], scratch)
                if means[a] > best_mean:
                    best, best_mean = a, means[a]
                if w > largest:
                    widest, largest = a, w
        if largest > width:  # a
            return widest
        if largest <= settings[FINEST]:  # b
            return best
        for a in range(K):  # c
            if left[a] > 0.0 and means[a] < best_mean - 2.0 * width:
                left[a] = 0.0
    return best


@jittable
def stage_of(state: Floats, settings: Floats, x: Floats) -> int:
    """The set that a reward of x belongs to; 0 if to none."""
    dim, width = x.shape[0], 1.0
    scratch = np.empty(dim)
    for s in range(1, int(settings[STAGES]) + 1):
        width *= 0.5
        if settings[ALPHA] * inverse_norm(factor_of(state, dim, s), x, scratch) > width:
            return s
    return 0


@jittable
def theta_of(state: Floats, dim: int, stage: int) -> Floats:
    """The estimate of a stage, counted from 1."""
    place = FIRST_STAGE + (stage - 1) * (dim + dim * dim)
    return state[place : place + dim]


@jittable
def factor_of(state: Floats, dim: int, stage: int) -> Floats:
    """The factor of its V."""
    place = FIRST_STAGE + (stage - 1) * (dim + dim * dim) + dim
    return state[place : place + dim * dim].reshape(dim, dim)


@jittable
def history_at(dim: int, stages: int) -> int:
    """Where the history begins."""
    return FIRST_STAGE + stages * (dim + dim * dim)
