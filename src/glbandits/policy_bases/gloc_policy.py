"""What GLOC and GLOC-TS share: an online Newton step, and the confidence set made from its predictions."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from glbandits.errors import number
from glbandits.maths.cholesky import solve_factorised, update
from glbandits.maths.links import Link, LinkFunctions, find_link, slope_range
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.numba_support import jittable
from glbandits.policy import Grid, settle
from glbandits.policy_bases.confidence import BY_THEORY, Confidence
from glbandits.policy_bases.grids import EXPLORATIONS, STEPS
from glbandits.records import Floats, Generator

PATH, SQUARES, VECTORS = 0, 1, 2
"""The state: sum of g^2 ||x||^2 in A^-1, sum of z^2; then theta, sum of z x, theta_hat, and the factor of A = V."""
THETA, TARGETS, THETA_HAT = 0, 1, 2


class Numbers(NamedTuple):
    """The settings in compiled code."""

    step: float
    bound: float
    exploration: float
    least_slope: float
    noise: float
    failure: float
    prior_precision: float


def first_state(dim: int, prior_precision: float) -> Floats:
    """Zeros, and the factor of prior_precision times I."""
    factor = math.sqrt(prior_precision) * np.eye(dim)
    return np.concatenate([np.zeros(VECTORS + 3 * dim), factor.ravel()])


def state_fits(state: Floats, dim: int) -> bool:
    """Two sums, three vectors and a factor."""
    if state.shape != (VECTORS + 3 * dim + dim * dim,) or not np.isfinite(state).all():
        return False
    return bool(state[PATH] >= 0.0 and state[SQUARES] >= 0.0 and (np.diagonal(factor_of(state, dim)) > 0.0).all())


@jittable
def read(settings: Floats) -> Numbers:
    """Name the settings."""
    return Numbers(settings[0], settings[1], settings[2], settings[3], settings[4], settings[5], settings[6])


@jittable
def vector(state: Floats, dim: int, which: int) -> Floats:
    """One of the vectors."""
    return state[VECTORS + which * dim : VECTORS + (which + 1) * dim]


@jittable
def factor_of(state: Floats, dim: int) -> Floats:
    """The factor of A, which is V too because both begin alike."""
    return state[VECTORS + 3 * dim :].reshape(dim, dim)


@jittable
def online_newton_step(state: Floats, n: Numbers, x: Floats, reward: float, link: LinkFunctions) -> None:
    """One round of the online Newton step, and of the regression on its predictions."""
    dim = x.shape[0]
    theta, targets, R = vector(state, dim, THETA), vector(state, dim, TARGETS), factor_of(state, dim)
    z = dot(x, theta)  # the prediction, made before the step
    g = min(link.mean(z) - reward, 1e100)  # so that its square is a number, also for the log link
    update(R, 1.0, x)
    direction = np.empty(dim)
    copy_to(direction, x)
    solve_factorised(R, direction)
    state[PATH] += g * g * dot(x, direction)
    state[SQUARES] += z * z
    add_scaled(targets, z, x)
    theta_hat = vector(state, dim, THETA_HAT)
    copy_to(theta_hat, targets)
    solve_factorised(R, theta_hat)
    add_scaled(theta, -n.step * g, direction)
    project_in_norm(theta, R, n.bound)


@jittable
def width(state: Floats, n: Numbers, dim: int) -> float:
    """The radius of the confidence set: the constant one, or sqrt(beta_t) of Theorem 1 if exploration is negative."""
    if n.exploration >= 0.0:
        return n.exploration
    kappa = n.least_slope
    path = 2.0 * kappa * n.bound**2 * n.prior_precision + state[PATH] / (2.0 * kappa)
    ratio = n.noise**2 / kappa**2
    inside = math.sqrt(1.0 + 2.0 / kappa * path + 4.0 * ratio**2 / n.failure**2)
    alpha = 1.0 + 4.0 / kappa * path + 8.0 * ratio * math.log(2.0 / n.failure * inside)
    unexplained = state[SQUARES] - dot(vector(state, dim, THETA_HAT), vector(state, dim, TARGETS))
    return math.sqrt(max(alpha + n.prior_precision * n.bound**2 - unexplained, 0.0))


@dataclass(frozen=True, kw_only=True)
class GlocEstimator(Confidence):
    """The settings of GLOC and GLOC-TS, and their way to learn.

    Each reward y of x, with z = x'theta predicted before the step and g = mu(z) - y:
    A += xx'; theta = projection of theta - eta g A^-1 x onto ||theta|| <= S, in the norm of A;
    V += xx'; theta_hat = V^-1 sum z x.
    O(d^2), and O(d^3) where the projection has work to do.

    Args:
        link: mu, any link.
        exploration: c, the radius of the confidence set; None for the theory's sqrt(beta_t).
        step: eta; None, or exploration=None, for the theory's 1/kappa, with kappa the least slope over |z| <= S.
        bound: S, a bound for ||theta*||.
        prior_precision: A and V before the first reward, times I (the paper's epsilon and lambda, taken equal).
        noise: R, the sub-Gaussian parameter of the rewards; only the theory's radius asks for it.
        failure: delta, likewise.
    """

    keeps_history: ClassVar[bool] = False
    grid: ClassVar[Grid] = {"step": STEPS, "exploration": EXPLORATIONS}

    link: str | Link = "logistic"
    exploration: float | None = 1.0
    step: float | None = 5.0
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        find_link(self.link)
        settle(self, prior_precision=number("prior_precision", self.prior_precision, above=0))
        if self.step is not None:
            settle(self, step=number("step", self.step, above=0))

    def init(self, dim: int) -> Floats:
        """Zeros and the prior."""
        return first_state(dim, self.prior_precision)

    def numbers(self, dim: int) -> Floats:
        """The settings as `Numbers` names them."""
        kappa, _ = slope_range(find_link(self.link), self.bound)
        step = 1.0 / kappa if self.step is None or self.exploration is None else self.step
        c = BY_THEORY if self.exploration is None else self.exploration
        return np.array(Numbers(step, self.bound, c, kappa, self.noise, self.failure, self.prior_precision))

    def fits(self, state: Floats, dim: int) -> bool:
        """As the estimator says."""
        return state_fits(state, dim)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """One online Newton step."""
        online_newton_step(state, read(settings), x, reward, link)
        return state
