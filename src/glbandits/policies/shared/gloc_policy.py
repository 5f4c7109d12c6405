"""Base class of GLOC and GLOC-TS: online Newton steps and their confidence set."""

import math
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import drop_overflow, rank_one_update, solve_factorised, solve_for_variance
from glbandits.maths.links import LinkFunctions
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.policies.contract import AnyLink, Grid, Positive, StateLayout, derived
from glbandits.policies.shared.shared_settings import EXPLORATIONS, STEPS, ExplorationSettingsWithNoise

LAYOUT = StateLayout()
PATH, SQUARES = LAYOUT.scalar("path", at_least=0.0), LAYOUT.scalar("squares", at_least=0.0)
"""The sums of g^2 ||x||^2_{A^-1}, and of z^2."""
theta_of, targets_of, theta_hat_of = LAYOUT.vector("theta"), LAYOUT.vector("targets"), LAYOUT.vector("theta_hat")
"""The iterate of the online Newton steps, the sum of z x, and the regression estimate."""
factor_of = LAYOUT.factor("factor")
"""The Cholesky factor of A. V is the same matrix, because both have the same initial value here."""


class GlocPolicy(ExplorationSettingsWithNoise):
    """The settings and the learning of GLOC and GLOC-TS.

    For each reward y of an arm x, with the prediction z = x'theta made before the step and g = mu(z) - y:

    1. A += xx'; theta = projection of theta - eta g A^-1 x onto ||theta|| <= S, in the norm of A;
    2. V += xx'; theta_hat = V^-1 sum z x.

    O(d^2) to learn, and O(d^3) when theta leaves the ball.

    Args:
        link: mu, any link.
        exploration: c, the radius of the confidence set. None uses the theory's sqrt(beta_t).
        step: eta. None uses the theory's 1/kappa, with kappa the smallest slope over |z| <= S. exploration=None implies
            that step too.
        bound: S, an upper bound of ||theta*||.
        prior_precision: the initial A and V are this times I (the paper's epsilon and lambda, taken equal).
        noise: R, the sub-Gaussian parameter of the rewards. Only the theory's radius uses it.
        failure: delta. Only the theory's radius uses it.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "theta_hat"
    grid: ClassVar[Grid] = {"step": STEPS, "exploration": EXPLORATIONS}

    link: AnyLink = "logistic"
    step: Positive | None = 5.0
    prior_precision: Positive = 1.0

    @derived
    def eta(self, dim: int) -> float:
        """The step size: the setting, or the theory's."""
        return 1.0 / self.least_slope(dim) if self.step is None or self.exploration is None else self.step

    def init(self, dim: int) -> Floats:
        return LAYOUT.allocate(dim, factor=self.prior_precision)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take one online Newton step, and update the regression on its predictions."""
        dim = x.shape[0]
        theta, targets, R = theta_of(state, dim), targets_of(state, dim), factor_of(state, dim)
        z = dot(x, theta)  # the prediction, made before the step
        g = min(link.mean(z) - reward, 1e100)  # under the log link its square could overflow
        rank_one_update(R, 1.0, x)
        direction = np.empty(dim)
        state[PATH] += g * g * min(solve_for_variance(R, x, direction), 1.0)  # at most 1, as A contains xx'
        state[SQUARES] += z * z
        add_scaled(targets, z, x)
        theta_hat = theta_hat_of(state, dim)
        copy_to(theta_hat, targets)
        solve_factorised(R, theta_hat)
        drop_overflow(theta_hat)
        add_scaled(theta, -settings.eta * g, direction)
        project_in_norm(theta, R, settings.bound)
        return state


@jittable
def width(state: Floats, settings: Any, dim: int) -> float:
    """The radius of the confidence set: the setting, or sqrt(beta_t) of Theorem 1."""
    if settings.exploration >= 0.0:
        return float(settings.exploration)
    kappa, bound, failure = settings.least_slope, settings.bound, settings.failure
    path = 2.0 * kappa * (bound * bound) * settings.prior_precision + state[PATH] / (2.0 * kappa)
    ratio = settings.noise * settings.noise / (kappa * kappa)
    inside = math.sqrt(1.0 + 2.0 / kappa * path + 4.0 * (ratio * ratio) / (failure * failure))
    alpha = 1.0 + 4.0 / kappa * path + 8.0 * ratio * math.log(2.0 / failure * inside)
    unexplained = state[SQUARES] - dot(theta_hat_of(state, dim), targets_of(state, dim))
    return math.sqrt(max(alpha + settings.prior_precision * (bound * bound) - unexplained, 0.0))
