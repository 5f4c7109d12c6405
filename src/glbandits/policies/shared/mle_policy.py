"""Base class of policies that refit theta after each reward, and have a matrix for a bonus or draw.

These are UCB-GLM, GLM-UCB, GLM-TSL, GLM-FP and OFUGLB-e. SupCB-GLM uses the settings. `refit_policy` has the base
classes of policies that need no matrix.
"""

from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.fitting.likelihood import hessian_factor
from glbandits.maths.fitting.observation_history import history, remember
from glbandits.maths.fitting.warm_fit import MEMORY_SIZE, absorb, refit
from glbandits.maths.links import LinkFunctions
from glbandits.policies.contract import (
    AnyLink,
    Bounds,
    NonNegative,
    NonNegativeInt,
    Policy,
    Positive,
    PositiveInt,
    StateLayout,
)
from glbandits.policies.shared.shared_settings import warm_up_length

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
"""The number of rewards learned."""
theta_of = LAYOUT.vector("theta")
theta_in_ball_of = LAYOUT.vector("theta_in_ball")  # only GLM-UCB uses it; the others score arms by theta
factor_of = LAYOUT.factor("factor")
memory_of = LAYOUT.array("memory", MEMORY_SIZE)
"""Data of the solver for a warm start (`maths.fitting.warm_fit`)."""
history_at = LAYOUT.history()


class MlePolicy(Policy):
    """A policy that refits theta to all rewards after each one, and maintains a d x d matrix.

    The matrix is the Hessian; a subclass may maintain another one. O(t d) to learn, because each fit starts at the last
    estimate; O(t d^2) with the Hessian. The state stores every distinct x once, so with a fixed set of arms neither
    time nor memory grows with t.

    Args:
        link: mu, any link.
        exploration: the scale of the policy's bonus or draw.
        warm_up_factor: C in tau = floor(C max(log T, d)), the number of random pulls before the first fit. Without a
            horizon, tau = floor(C d).
        warm_up: tau itself, instead of warm_up_factor.
        horizon: T, if it is known.
        ridge: the ridge penalty of the fit; the papers have 0.
        prior_precision: the initial matrix is this times I; 1e-6 in published code.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "ridge", "tau")

    link: AnyLink = "logistic"
    exploration: NonNegative = 1.0
    warm_up_factor: Annotated[float, Bounds(above=0, at_most=1e9)] = 1.0
    warm_up: NonNegativeInt | None = None
    horizon: PositiveInt | None = None
    ridge: NonNegative = 0.0
    prior_precision: Positive = 1e-6

    def tau(self, dim: int) -> int:
        """The number of random pulls before the first fit."""
        return self.warm_up if self.warm_up is not None else warm_up_length(self.warm_up_factor, self.horizon, dim)

    def random_start(self, dim: int) -> int:
        return self.tau(dim)

    def init(self, dim: int) -> Floats:
        return self.layout.allocate(dim, factor=self.prior_precision)

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        """1 before tau rewards were learned, then 0."""
        return 1.0 if state[LEARNED] < settings.tau else 0.0

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, refit theta, and factorise the Hessian at the new estimate."""
        state, dim = remember_and_fit(state, settings, x, reward, link), x.shape[0]
        if state[LEARNED] >= settings.tau:
            rows, theta = history(state, history_at(dim), dim), theta_of(state, dim)
            hessian_factor(factor_of(state, dim), rows.features, rows.counts, settings.prior_precision, theta, link)
        return state


@jittable
def remember_and_fit(state: Floats, settings: Any, x: Floats, reward: float, link: LinkFunctions) -> Floats:
    """Store a reward, and after the warm-up refit theta to all rewards.

    Returns the state, which may be a larger array.
    """
    dim = x.shape[0]
    state = remember(state, history_at(dim), x, reward)
    state[LEARNED] += 1.0
    if state[LEARNED] >= settings.tau:
        rows, theta, memory = history(state, history_at(dim), dim), theta_of(state, dim), memory_of(state, dim)
        absorb(theta, memory, x, reward, link)
        refit(rows.features, rows.rewards, rows.counts, settings.ridge, np.zeros(dim), False, theta, memory, link)
    return state
