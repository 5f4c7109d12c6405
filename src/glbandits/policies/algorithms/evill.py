"""EVILL: a linear perturbation of the loss (Janz, Liu, Ayoub and Szepesvari, 2024)."""

import math
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.fitting.observation_history import history
from glbandits.maths.fitting.warm_fit import refit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals
from glbandits.maths.vectors import copy_to, dot_row
from glbandits.policies.contract import Grid, NonNegative, PolicyInfo, Positive
from glbandits.policies.shared.refit_policy import (
    LEARNED,
    FittedPolicy,
    add_observation,
    fit_again,
    fitted_rows_at,
    memory_of,
    theta_hat_of,
    theta_of,
)  # fmt: skip
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class Evill(FittedPolicy):
    """Minimise the loss plus a random linear function; pull the best arm under the minimum.

    1. theta_hat = the ridge estimate from all rewards.
    2. w = a (sqrt(lambda) xi_0 + sum_s sqrt(mu'(x_s'theta_hat)) xi_s x_s), with xi_0 ~ N(0, I) and xi_s ~ N(0, 1).
    3. theta = argmin of the loss plus w'theta; pull argmax x'theta.

    The covariance of w is a^2 H, with H the Hessian at theta_hat. So to first order theta ~ N(theta_hat, a^2 H^-1), as
    in Thompson sampling, but without sampling from H^-1. O(K d) to choose, O(t d) to learn.

    Args:
        link: mu, any link.
        exploration: a.
        warm_up: the number of random pulls before the first fit.
        ridge: lambda, which must be positive.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import Evill
    >>> bandit = Bandit(Evill(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "evill"
    estimate: ClassVar[str] = "theta_hat"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d", memory="t d", page="randomised-fits",
        guarantee="d^(3/2) sqrt(T)", use_when="Thompson sampling for any link, with cheap decisions",
    )  # fmt: skip

    exploration: NonNegative = 1.0
    ridge: Positive = 1.0

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, refit theta_hat, and fit theta to the perturbed loss."""
        dim, ridge, a = x.shape[0], settings.ridge, settings.exploration
        state = add_observation(state, fitted_rows_at(dim), x, reward)
        if state[LEARNED] < settings.warm_up:
            return state
        rows, theta, theta_hat = (
            history(state, fitted_rows_at(dim), dim),
            theta_of(state, dim),
            theta_hat_of(state, dim),
        )
        fit_again(state, settings, theta_hat, x, reward, link)
        # Adding w'theta to the loss is the same as moving the data: a sqrt(lambda) xi_0'theta moves the centre of the
        # ridge by -a xi_0 / sqrt(lambda), and a sqrt(N mu') xi x'theta moves the mean reward of a row seen N times by
        # -a sqrt(mu'/N) xi. The signs do not matter, because normal numbers are symmetric.
        centre, perturbed = np.zeros(dim), np.zeros(rows.counts.shape[0])
        add_normals(centre, a / math.sqrt(ridge), rng)
        add_normals(perturbed, a, rng)
        for s in range(perturbed.shape[0]):
            curvature = link.slope(dot_row(rows.features, s, theta_hat))
            perturbed[s] = rows.rewards[s] + math.sqrt(curvature / rows.counts[s]) * perturbed[s]
        copy_to(theta, theta_hat)
        memory = memory_of(state, dim).copy()  # the solver's data in the state stay those of theta_hat
        refit(rows.features, perturbed, rows.counts, ridge, centre, True, theta, memory, link)
        return state
