"""Base class of GLOC and GLOC-TS: online Newton steps and their confidence set."""

from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.cholesky import drop_overflow, rank_one_update, solve_factorised, solve_for_variance
from glbandits.maths.links import LinkFunctions
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.policies.contract import AnyLink, Bounds, Grid, NonNegative, Policy, Positive, StateLayout
from glbandits.policies.shared.shared_settings import EXPLORATIONS, STEPS

LAYOUT = StateLayout()
theta_of, targets_of, theta_hat_of = LAYOUT.vector("theta"), LAYOUT.vector("targets"), LAYOUT.vector("theta_hat")
"""The iterate of the online Newton steps, the sum of z x, and the regression estimate."""
factor_of = LAYOUT.factor("factor")
"""The Cholesky factor of A. V is the same matrix, because both have the same initial value here."""


class GlocPolicy(Policy):
    """The settings and the learning of GLOC and GLOC-TS.

    For each reward y of an arm x, with the prediction z = x'theta made before the step and g = mu(z) - y:

    1. A += xx'; theta = projection of theta - eta g A^-1 x onto ||theta|| <= S, in the norm of A;
    2. V += xx'; theta_hat = V^-1 sum z x.

    O(d^2) to learn, and O(d^3) when theta leaves the ball.

    Args:
        link: mu, any link.
        exploration: c, the radius of the confidence set.
        step: eta.
        bound: S, an upper bound of ||theta*||.
        prior_precision: the initial A and V are this times I (the paper's epsilon and lambda, taken equal).

    The theory's c and eta explore far too much: docs/theory/gloc.md has them.
    """

    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "theta_hat"
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "step", "bound")
    grid: ClassVar[Grid] = {"step": STEPS, "exploration": EXPLORATIONS}

    link: AnyLink = "logistic"
    exploration: NonNegative = 1.0
    step: Positive = 5.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 1.0
    prior_precision: Positive = 1.0

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
        solve_for_variance(R, x, direction)
        add_scaled(targets, z, x)
        theta_hat = theta_hat_of(state, dim)
        copy_to(theta_hat, targets)
        solve_factorised(R, theta_hat)
        drop_overflow(theta_hat)
        add_scaled(theta, -settings.step * g, direction)
        project_in_norm(theta, R, settings.bound)
        return state
