"""What UCB-GLM, GLM-UCB, GLM-TSL, GLM-FP and OFUGLB-e share: maximum likelihood on all rewards, again after each."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.compiled import jittable
from glbandits.contract import settle
from glbandits.errors import number, whole
from glbandits.estimators.confidence import Confidence
from glbandits.estimators.warm_up import warm_up_length
from glbandits.maths.history import first_history, history, history_fits, refit, remember
from glbandits.maths.likelihood import hessian_factor
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.records import Floats

LEARNED, THETA = 0, 1
"""The state: rewards learned, theta_hat, the factor of a matrix, and the history."""
EXPLORATION, TAU, RIDGE, PRIOR_PRECISION = 0, 1, 2, 3
"""The settings in compiled code."""


@dataclass(frozen=True, kw_only=True)
class MleEstimator(Confidence):
    """The settings and the state of a policy that fits all rewards again and again, and keeps a matrix beside.

    O(t d^2) to learn, from a warm start. The state keeps every distinct x, so with a fixed set of arms neither grows
    with t.

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
        failure: delta, the chance that the theory's width is too small, likewise.
    """

    keeps_history: ClassVar[bool] = True

    link: str | Link = "logistic"
    warm_up_factor: float = 1.0
    warm_up: int | None = None
    horizon: int | None = None
    ridge: float = 0.0
    prior_precision: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        find_link(self.link)
        settle(
            self,
            warm_up_factor=number("warm_up_factor", self.warm_up_factor, above=0, at_most=1e9),
            ridge=number("ridge", self.ridge, at_least=0),
            prior_precision=number("prior_precision", self.prior_precision, above=0),
        )
        if self.warm_up is not None:
            settle(self, warm_up=whole("warm_up", self.warm_up, at_least=0))
        if self.horizon is not None:
            settle(self, horizon=whole("horizon", self.horizon, at_least=1))
        self.scale(1)

    def scale(self, dim: int) -> float:
        """The scale of the bonus or draw; the theory's is for a norm weighted by the link's slope."""
        if self.exploration is not None:
            return self.exploration
        return self.weighted_width(self.link, dim, self.horizon)

    def precision(self) -> float:
        """The policy's matrix before the first reward, times I."""
        return self.prior_precision

    def tau(self, dim: int) -> int:
        """The number of random pulls."""
        return self.warm_up if self.warm_up is not None else warm_up_length(self.warm_up_factor, self.horizon, dim)

    def init(self, dim: int) -> Floats:
        """Nothing learned, and a matrix that is the prior alone."""
        factor = math.sqrt(self.precision()) * np.eye(dim)
        return np.concatenate([np.zeros(1 + dim), factor.ravel(), first_history(dim)])

    def numbers(self, dim: int) -> Floats:
        """As the constants above name them."""
        return np.array([self.scale(dim), self.tau(dim), self.ridge, self.precision()])

    def fits(self, state: Floats, dim: int) -> bool:
        """Numbers, a vector, a factor, and a history behind them."""
        if state.ndim != 1 or not np.isfinite(state).all() or not history_fits(state, history_at(dim), dim):
            return False
        return bool(state[LEARNED] >= 0.0 and (np.diagonal(factor_of(state, dim)) > 0.0).all())


@jittable
def factor_of(state: Floats, dim: int) -> Floats:
    """The factor of the policy's matrix: V, M or H."""
    return state[THETA + dim : THETA + dim + dim * dim].reshape(dim, dim)


@jittable
def history_at(dim: int) -> int:
    """Where the history begins."""
    return THETA + dim + dim * dim


@jittable
def refit_with_curvature(state: Floats, settings: Floats, x: Floats, reward: float, link: LinkFunctions) -> Floats:
    """Remember a reward; after the warm-up fit all of them again, and factorise the Hessian at the new estimate."""
    dim = x.shape[0]
    state = remember(state, history_at(dim), x, reward)
    state[LEARNED] += 1.0
    if state[LEARNED] >= settings[TAU]:
        theta = state[THETA : THETA + dim]
        refit(state, history_at(dim), theta, settings[RIDGE], link)
        rows = history(state, history_at(dim), dim)
        hessian_factor(factor_of(state, dim), rows.features, rows.counts, settings[PRIOR_PRECISION], theta, link)
    return state
