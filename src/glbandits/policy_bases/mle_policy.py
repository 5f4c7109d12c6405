"""What UCB-GLM, GLM-UCB, GLM-TSL, GLM-FP and OFUGLB-e share: maximum likelihood on all rewards, again after each."""

from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.maths.likelihood import hessian_factor
from glbandits.maths.links import LinkFunctions
from glbandits.maths.observation_history import history, remember
from glbandits.maths.warm_fit import MEMORY_SIZE, absorb, refit
from glbandits.numba_support import jittable
from glbandits.policy import AnyLink, Bounds, NonNegative, NonNegativeInt, Positive, PositiveInt, StateLayout, derived
from glbandits.policy_bases.confidence import Confidence
from glbandits.policy_bases.warm_up import warm_up_length
from glbandits.records import Floats, Generator

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
theta_of = LAYOUT.vector("theta")
theta_in_ball_of = LAYOUT.vector("theta_in_ball")  # of GLM-UCB; the others play theta
factor_of = LAYOUT.factor("factor")
memory_of = LAYOUT.array("memory", MEMORY_SIZE)
history_at = LAYOUT.history()


class MlePolicy(Confidence):
    """The settings and the state of a policy that fits all rewards again and again, and keeps a matrix beside.

    O(t d) to learn, from a warm start; O(t d^2) where the policy's matrix is the Hessian. The state keeps every
    distinct x, so with a fixed set of arms neither grows with t.

    Args:
        link: mu, any link.
        exploration: the scale of the policy's bonus or draw; None for the theory's, which needs a horizon.
        warm_up_factor: C in tau = floor(C max(log T, d)), the number of random pulls before the first fit; without a
            horizon tau = floor(C d).
        warm_up: tau itself, instead of warm_up_factor.
        horizon: T, if it is known.
        ridge: penalty of the fit; 0 is the papers'.
        prior_precision: the policy's matrix before the first reward, times I; 1e-6 in published code.
        bound: S, a bound for ||theta*||, for the theory's scale only.
        noise: R, the sub-Gaussian parameter of rewards, likewise.
        failure: delta, the probability that the theory's width is too small, likewise.
    """

    layout: ClassVar[StateLayout] = LAYOUT

    link: AnyLink = "logistic"
    warm_up_factor: Annotated[float, Bounds(above=0, at_most=1e9)] = 1.0
    warm_up: NonNegativeInt | None = None
    horizon: PositiveInt | None = None
    ridge: NonNegative = 0.0
    prior_precision: Positive = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scale(1)

    @derived
    def scale(self, dim: int) -> float:
        """The scale of the bonus or draw; the theory's is for a norm weighted by the link's slope."""
        if self.exploration is not None:
            return self.exploration
        return self.weighted_width(self.link, dim, self.horizon)

    @derived
    def precision(self, dim: int) -> float:
        """The policy's matrix before the first reward, times I."""
        return self.prior_precision

    @derived
    def fit_ridge(self, dim: int) -> float:
        """The ridge of the fit."""
        return self.ridge

    @derived
    def tau(self, dim: int) -> int:
        """The number of random pulls."""
        return self.warm_up if self.warm_up is not None else warm_up_length(self.warm_up_factor, self.horizon, dim)

    def init(self, dim: int) -> Floats:
        """Nothing learned, and a matrix that is the prior alone."""
        return self.layout.allocate(dim, factor=self.precision(dim))

    @staticmethod
    def is_warming_up(state: Floats, settings: Any) -> bool:
        """Whether fewer than tau rewards are known."""
        return bool(state[LEARNED] < settings.tau)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember a reward; after the warm-up fit all of them again, and factorise the Hessian at the new estimate."""
        state, dim = remember_and_fit(state, settings, x, reward, link), x.shape[0]
        if state[LEARNED] >= settings.tau:
            rows, theta = history(state, history_at(dim), dim), theta_of(state, dim)
            hessian_factor(factor_of(state, dim), rows.features, rows.counts, settings.precision, theta, link)
        return state


@jittable
def remember_and_fit(state: Floats, settings: Any, x: Floats, reward: float, link: LinkFunctions) -> Floats:
    """Remember a reward, and after the warm-up fit all of them again. Returns the state, which may be a larger copy."""
    dim = x.shape[0]
    state = remember(state, history_at(dim), x, reward)
    state[LEARNED] += 1.0
    if state[LEARNED] >= settings.tau:
        rows, theta, memory = history(state, history_at(dim), dim), theta_of(state, dim), memory_of(state, dim)
        absorb(theta, memory, x, reward, link)
        refit(rows.features, rows.rewards, rows.counts, settings.fit_ridge, np.zeros(dim), False, theta, memory, link)
    return state
