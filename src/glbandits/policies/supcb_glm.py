"""SupCB-GLM: staged elimination on sets of rewards that do not depend on each other (Li, Lu and Zhou, 2017)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.maths.cholesky import inverse_norm, update
from glbandits.maths.gaussian import score_and_norm
from glbandits.maths.links import LinkFunctions, find_link, slope_range
from glbandits.maths.observation_history import empty_history, is_valid_history, labelled, remember, rows_labelled
from glbandits.maths.vectors import copy_to
from glbandits.maths.warm_fit import MEMORY_SIZE, absorb, refit
from glbandits.numba_support import jittable
from glbandits.policy import Bounds, Grid, NonNegative, PolicyInfo, PositiveInt, StateLayout, derived
from glbandits.policy_bases.grids import EXPLORATIONS, FACTORS
from glbandits.policy_bases.mle_policy import MlePolicy
from glbandits.records import Floats, Generator

LAYOUT, STAGE = StateLayout(), StateLayout()
"""The state is the count of rewards, a tail of stages, and a history that is labelled by stage."""
LEARNED = LAYOUT.count("learned")  # at the index where `MlePolicy` reads it
theta_of, factor_of, memory_of = STAGE.vector("theta"), STAGE.factor("V"), STAGE.array("memory", MEMORY_SIZE)
stages_at, stage_size = LAYOUT.end(), STAGE.end()
WARM_UP_ROUNDS = 0.0
"""The label of F, the random rounds that every stage uses."""


class SupCbGlm(MlePolicy):
    """Find the arm in stages, each twice as fine as the one before and with rewards of its own.

    1. Pull tau arms at random: the set F. Psi_1 .. Psi_S are empty, S = floor(log2 T).
    2. Each round, from stage s = 1 with all arms, on the rewards of Psi_s and F: theta = maximum likelihood,
       m = x'theta and w = alpha ||x||_{V^-1} of every arm that is left.
       a. If some w > 2^-s, pull the arm with the largest, and put its reward into Psi_s.
       b. Else, if all w <= 1/sqrt T, pull the largest m.
       c. Else keep the arms with m >= max m - 2 2^-s, and go on to stage s + 1.

    Which set a reward belongs to depends on features alone, never on rewards of its own stage: that makes the rewards
    of a stage independent. Here it is found when a reward comes, as the first stage with w > 2^-s for its x, so
    rewards may come late. Such a reward of line b belongs to a later stage than its choice, where the paper discards
    it.

    O(log T K d^2) to choose, O(t d) to learn: only the stage that got the reward is fitted again.

    Settings are `MlePolicy`'s. exploration is alpha; None for the theory's (3 R/kappa) sqrt(2 log(T K/delta)), which
    needs `arms`. horizon is T, which sets the number of stages; play may go on beyond it.

    Args:
        arms: K, the most arms in a round; for the theory's alpha only.

    >>> from glbandits import Bandit, SupCbGlm
    >>> bandit = Bandit(SupCbGlm(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0]], [1.0, 0.9])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "supcb-glm"
    layout: ClassVar[StateLayout] = LAYOUT
    keeps_history: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2 log T", learn="t d", memory="t d + d^2 log T",
        guarantee="sqrt(d T log K), contexts drawn independently",
        use_when="the sharpest rate in K and d is wanted for a proof; it plays poorly",
    )  # fmt: skip

    exploration: NonNegative | None = 1.0
    horizon: Annotated[int, Bounds(at_least=2)] = 10_000
    arms: PositiveInt | None = None

    @derived
    def scale(self, dim: int) -> float:
        """Alpha, the width of an arm's interval, in units of its norm."""
        if self.exploration is not None:
            return self.exploration
        if self.arms is None:
            raise InvalidInput(
                "exploration=None is the theory's width, which needs arms, the most arms in a round; got none"
            )
        kappa, _ = slope_range(find_link(self.link), self.bound + 1.0)
        return 3.0 * self.noise / kappa * math.sqrt(2.0 * math.log(self.horizon * self.arms / self.failure))

    @derived
    def stages(self, dim: int) -> int:
        """S."""
        return max(1, math.floor(math.log2(self.horizon)))

    @derived
    def finest(self, dim: int) -> float:
        """1/sqrt T."""
        return float(self.horizon**-0.5)

    def init(self, dim: int) -> Floats:
        """Nothing learned at any stage."""
        state = LAYOUT.allocate(dim, tail=self.stages(dim) * stage_size(dim))
        state[stages_at(dim) :] = np.tile(STAGE.allocate(dim, V=self.prior_precision), self.stages(dim))
        return np.concatenate([state, empty_history(dim + 1)])

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """A count, the stages and a history behind them."""
        end = history_at(dim, self.stages(dim))
        if state.ndim != 1 or not is_valid_history(state, end, dim + 1) or not np.isfinite(state).all():
            return False
        stages = state[stages_at(dim) : end].reshape(-1, stage_size(dim))
        return LAYOUT.is_valid(state[: stages_at(dim)], dim) and all(STAGE.is_valid(stage, dim) for stage in stages)

    @staticmethod
    def decide(state: Floats, settings: Any, arms: Floats, link: LinkFunctions) -> int:
        """Line 2."""
        K, dim = arms.shape
        left, means, scratch = np.ones(K), np.empty(K), np.empty(dim)
        width, best = 1.0, 0
        for s in range(1, int(settings.stages) + 1):
            width *= 0.5
            stage = stage_of(state, dim, s)
            theta, V = theta_of(stage, dim), factor_of(stage, dim)
            best, best_mean, widest, largest = 0, -np.inf, 0, -np.inf
            for a in range(K):
                if left[a] > 0.0:
                    means[a], length = score_and_norm(arms, a, theta, V, scratch)
                    w = settings.scale * length
                    if means[a] > best_mean:
                        best, best_mean = a, means[a]
                    if w > largest:
                        widest, largest = a, w
            if largest > width:  # a
                return widest
            if largest <= settings.finest:  # b
                return best
            for a in range(K):  # c
                if left[a] > 0.0 and means[a] < best_mean - 2.0 * width:
                    left[a] = 0.0
        return best

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Add the reward to all stages during the warm-up, then to the stage it belongs to."""
        dim, stages = x.shape[0], int(settings.stages)
        rows_at = history_at(dim, stages)
        state[LEARNED] += 1.0
        if state[LEARNED] <= settings.tau:
            state = remember(state, rows_at, labelled(x, WARM_UP_ROUNDS), reward)
            for s in range(1, stages + 1):
                update(factor_of(stage_of(state, dim, s), dim), 1.0, x)
            number = 1
        else:
            number = stage_number(state, settings, x)
            if number > 0:
                state = remember(state, rows_at, labelled(x, float(number)), reward)
                update(factor_of(stage_of(state, dim, number), dim), 1.0, x)
        if number > 0 and state[LEARNED] >= settings.tau:
            rows = rows_labelled(state, rows_at, dim, WARM_UP_ROUNDS, float(number))
            stage = stage_of(state, dim, number)
            theta, memory = theta_of(stage, dim), memory_of(stage, dim)
            absorb(theta, memory, x, reward, link)
            refit(rows.features, rows.rewards, rows.counts, settings.ridge, np.zeros(dim), False, theta, memory, link)
            if state[LEARNED] <= settings.tau:  # all stages begin with the estimate from F
                for s in range(2, stages + 1):
                    copy_to(theta_of(stage_of(state, dim, s), dim), theta)
        return state


@jittable
def stage_number(state: Floats, settings: Any, x: Floats) -> int:
    """The stage that a reward of x belongs to, counted from 1; 0 if to none."""
    dim, width = x.shape[0], 1.0
    scratch = np.empty(dim)
    for s in range(1, int(settings.stages) + 1):
        width *= 0.5
        if settings.scale * inverse_norm(factor_of(stage_of(state, dim, s), dim), x, scratch) > width:
            return s
    return 0


@jittable
def stage_of(state: Floats, dim: int, number: int) -> Floats:
    """The part of the state for a stage, counted from 1."""
    start = stages_at(dim) + (number - 1) * stage_size(dim)
    return state[start : start + stage_size(dim)]


@jittable
def history_at(dim: int, stages: int) -> int:
    """The offset of the history."""
    return stages_at(dim) + stages * stage_size(dim)
