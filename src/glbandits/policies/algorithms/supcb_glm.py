"""SupCB-GLM: elimination of arms in stages (Li, Lu and Zhou, 2017)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import inverse_norm, rank_one_update
from glbandits.maths.fitting.observation_history import (
    empty_history,
    is_valid_history,
    labelled,
    remember,
    rows_labelled,
)
from glbandits.maths.fitting.warm_fit import MEMORY_SIZE, absorb, refit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import any_index
from glbandits.maths.posteriors.gaussian_posterior import score_and_norm
from glbandits.maths.vectors import copy_to, point_mass, uniform_mass
from glbandits.policies.contract import Bounds, Grid, NonNegative, PolicyInfo, StateLayout
from glbandits.policies.shared.mle_policy import MlePolicy
from glbandits.policies.shared.shared_settings import EXPLORATIONS, FACTORS

LAYOUT, STAGE = StateLayout(), StateLayout()
"""The state consists of the count of rewards, one STAGE for each stage, and a history labelled by stage."""
LEARNED = LAYOUT.count("learned")  # at the same index as in `MlePolicy`, which reads it
theta_of, factor_of, memory_of = STAGE.vector("theta"), STAGE.factor("V"), STAGE.array("memory", MEMORY_SIZE)
stages_at, stage_size = LAYOUT.end(), STAGE.end()
WARM_UP_ROUNDS = 0.0
"""The label of the rewards of F, which every stage uses."""


class SupCbGlm(MlePolicy):
    """Eliminate arms in stages, each twice as precise as the last and with its own rewards.

    1. Pull tau arms at random: their rewards are the set F. The sets Psi_1 .. Psi_S are empty, S = floor(log2 T).
    2. Each round, start at stage s = 1 with all arms. From the rewards of Psi_s and F compute the maximum likelihood
       estimate theta, and for every remaining arm its mean m = x'theta and width w = alpha ||x||_{V^-1}.
       a. If some w > 2^-s, pull the arm with the largest w, and add its reward to Psi_s.
       b. Otherwise, if all w <= 1/sqrt T, pull the arm with the largest m.
       c. Otherwise keep the arms with m >= max m - 2 2^-s, and go to stage s + 1.

    The set of a reward depends on features only, never on rewards of the same stage. This makes the rewards of a stage
    independent. Here `learn` finds the set: it is the first stage with w > 2^-s for the arm's x, so rewards may be
    delayed. A reward of line b may thereby join a later stage; the paper discards it.

    O(K d^2 log T) to choose. O(t d) to learn, because only the stage of the reward is refitted.

    The settings are those of `MlePolicy`. exploration is alpha. horizon is T, which sets the number of stages; more
    than T rounds are allowed.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import SupCbGlm
    >>> bandit = Bandit(SupCbGlm(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0]], [1.0, 0.9])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "supcb-glm"
    layout: ClassVar[StateLayout] = LAYOUT
    keeps_history: ClassVar[bool] = True
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "ridge", "tau", "stages", "finest")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2 log T", learn="t d", memory="t d + d^2 log T",
        guarantee="sqrt(d T log K), contexts drawn independently",
        use_when="the best proven rate in K and d is wanted; its regret in practice is high",
    )  # fmt: skip

    exploration: NonNegative = 1.0
    horizon: Annotated[int, Bounds(at_least=2)] = 10_000

    def stages(self, dim: int) -> int:
        """The number of stages S."""
        return max(1, math.floor(math.log2(self.horizon)))

    def finest(self, dim: int) -> float:
        """The final width 1/sqrt T."""
        return float(self.horizon**-0.5)

    def init(self, dim: int) -> Floats:
        state = LAYOUT.allocate(dim, tail=self.stages(dim) * stage_size(dim))
        state[stages_at(dim) :] = np.tile(STAGE.allocate(dim, V=self.prior_precision), self.stages(dim))
        return np.concatenate([state, empty_history(dim + 1)])

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        end = history_at(dim, self.stages(dim))
        if state.ndim != 1 or not is_valid_history(state, end, dim + 1) or not np.isfinite(state).all():
            return False
        stages = state[stages_at(dim) : end].reshape(-1, stage_size(dim))
        return LAYOUT.is_valid(state[: stages_at(dim)], dim) and all(STAGE.is_valid(stage, dim) for stage in stages)

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Choose by line 1 or 2."""
        if state[LEARNED] < settings.tau:
            return any_index(rng, arms.shape[0])
        return arm_by_stages(state, settings, arms)

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        if state[LEARNED] < settings.tau:
            uniform_mass(out)
        else:
            point_mass(out, arm_by_stages(state, settings, arms))
        return True

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Add the reward to all stages during the warm-up, then to the stage it belongs to."""
        dim, stages = x.shape[0], int(settings.stages)
        rows_at = history_at(dim, stages)
        state[LEARNED] += 1.0
        if state[LEARNED] <= settings.tau:
            state = remember(state, rows_at, labelled(x, WARM_UP_ROUNDS), reward)
            for s in range(1, stages + 1):
                rank_one_update(factor_of(stage_of(state, dim, s), dim), 1.0, x)
            s_reward = 1
        else:
            s_reward = stage_of_reward(state, settings, x)
            if s_reward > 0:
                state = remember(state, rows_at, labelled(x, float(s_reward)), reward)
                rank_one_update(factor_of(stage_of(state, dim, s_reward), dim), 1.0, x)
        if s_reward > 0 and state[LEARNED] >= settings.tau:
            rows = rows_labelled(state, rows_at, dim, WARM_UP_ROUNDS, float(s_reward))
            stage = stage_of(state, dim, s_reward)
            theta, memory = theta_of(stage, dim), memory_of(stage, dim)
            absorb(theta, memory, x, reward, link)
            refit(rows.features, rows.rewards, rows.counts, settings.ridge, np.zeros(dim), False, theta, memory, link)
            if state[LEARNED] <= settings.tau:  # the estimate from F is the initial estimate of all stages
                for s in range(2, stages + 1):
                    copy_to(theta_of(stage_of(state, dim, s), dim), theta)
        return state


@jittable
def arm_by_stages(state: Floats, settings: Any, arms: Floats) -> int:
    """Choose by line 2."""
    K, dim = arms.shape
    left, means, scratch = np.ones(K), np.empty(K), np.empty(dim)
    limit, best = 1.0, 0  # limit is 2^-s
    for s in range(1, int(settings.stages) + 1):
        limit *= 0.5
        stage = stage_of(state, dim, s)
        theta, V = theta_of(stage, dim), factor_of(stage, dim)
        best, best_mean, widest, largest = 0, -np.inf, 0, -np.inf
        for a in range(K):
            if left[a] > 0.0:
                means[a], length = score_and_norm(arms, a, theta, V, scratch)
                w = settings.exploration * length
                if means[a] > best_mean:
                    best, best_mean = a, means[a]
                if w > largest:
                    widest, largest = a, w
        if largest > limit:  # a
            return widest
        if largest <= settings.finest:  # b
            return best
        for a in range(K):  # c
            if left[a] > 0.0 and means[a] < best_mean - 2.0 * limit:
                left[a] = 0.0
    return best


@jittable
def stage_of_reward(state: Floats, settings: Any, x: Floats) -> int:
    """The stage of a reward of x, counted from 1; 0 if it belongs to no stage."""
    dim, limit = x.shape[0], 1.0
    scratch = np.empty(dim)
    for s in range(1, int(settings.stages) + 1):
        limit *= 0.5
        if settings.exploration * inverse_norm(factor_of(stage_of(state, dim, s), dim), x, scratch) > limit:
            return s
    return 0


@jittable
def stage_of(state: Floats, dim: int, s: int) -> Floats:
    """Return the part of the state for stage s, counted from 1."""
    start = stages_at(dim) + (s - 1) * stage_size(dim)
    return state[start : start + stage_size(dim)]


@jittable
def history_at(dim: int, stages: int) -> int:
    """The offset of the history."""
    return stages_at(dim) + stages * stage_size(dim)
