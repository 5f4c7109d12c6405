"""GLM-FPL: follow the perturbed leader, with noise on past rewards (Kveton et al., 2020)."""

import math
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.fitting.observation_history import history
from glbandits.maths.fitting.warm_fit import absorb, refit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals
from glbandits.policies.contract import Grid, NonNegative, PolicyInfo
from glbandits.policies.shared.refit_policy import (
    LEARNED,
    FittedPolicy,
    add_observation,
    fitted_rows_at,
    memory_of,
    theta_of,
)
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class GlmFpl(FittedPolicy):
    """Add N(0, a^2) noise to every past reward, refit theta, and pull the best arm under it.

    The noise of all rewards is drawn again for each fit. A row that was seen N times gets the mean of N normal numbers.
    O(K d) to choose, O(t d) to learn.

    Args:
        link: mu, any link.
        exploration: a; 1/2 is the largest standard deviation of a reward in [0, 1].
        warm_up: the number of random pulls before the first fit.
        ridge: the ridge penalty. Perturbed rewards may be outside the range of the link, so without a ridge the fit may
            not exist.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import GlmFpl
    >>> bandit = Bandit(GlmFpl(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-fpl"
    estimate_is_draw: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="t d", memory="t d", page="randomised-fits",
        guarantee="d sqrt(T log K)", use_when="random exploration without a posterior, with cheap decisions",
    )  # fmt: skip

    exploration: NonNegative = 0.5

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, perturb all rewards, and refit theta."""
        dim = x.shape[0]
        state = add_observation(state, fitted_rows_at(dim), x, reward)
        if state[LEARNED] >= settings.warm_up:
            rows, theta, memory = history(state, fitted_rows_at(dim), dim), theta_of(state, dim), memory_of(state, dim)
            absorb(theta, memory, x, reward, link)
            perturbed = np.zeros(rows.counts.shape[0])
            add_normals(perturbed, settings.exploration, rng)
            for s in range(perturbed.shape[0]):
                perturbed[s] = rows.rewards[s] + perturbed[s] / math.sqrt(rows.counts[s])
            refit(rows.features, perturbed, rows.counts, settings.ridge, np.zeros(dim), True, theta, memory, link)
        return state
