"""Base classes of policies that pull the best arm under a theta computed from all rewards.

These are greedy, epsilon-greedy, the perturbed policies, PG-TS and LMC-TS. They need no matrix. `mle_policy` has the
base class of policies that need one, for a bonus or draw.
"""

from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.compilation.numba_support import jittable
from glbandits.maths.fitting.observation_history import history, remember
from glbandits.maths.fitting.warm_fit import MEMORY_SIZE, absorb, refit
from glbandits.maths.links import LinkFunctions
from glbandits.policies.contract import AnyLink, NonNegative, NonNegativeInt, Policy, StateLayout

LAYOUT = StateLayout()
LEARNED = LAYOUT.count("learned")
"""The number of rewards learned."""
theta_of = LAYOUT.vector("theta")
history_at = LAYOUT.history()

FITTED = StateLayout(LAYOUT)
theta_hat_of = FITTED.vector("theta_hat")  # only EVILL uses it: its theta is perturbed
memory_of = FITTED.array("memory", MEMORY_SIZE)
"""Data of the solver for a warm start (`maths.fitting.warm_fit`)."""
fitted_rows_at = FITTED.history()


class RefitPolicy(Policy):
    """A policy that pulls the best arm under one theta. Subclasses compute theta in `learn`.

    O(K d) to choose. The state stores every distinct x once, so with a fixed set of arms it does not grow with t. If
    theta is random, it is drawn once for each reward; decisions between two rewards use the same theta.

    Args:
        link: mu, any link.
        warm_up: the number of random pulls before the first fit.
        ridge: the ridge penalty of the fit, which is the precision of a normal prior.
    """

    layout: ClassVar[StateLayout] = LAYOUT

    link: AnyLink = "logistic"
    warm_up: NonNegativeInt = 1
    ridge: NonNegative = 1.0

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        """1 before `warm_up` rewards were learned, then 0."""
        return 1.0 if state[LEARNED] < settings.warm_up else 0.0

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Return the theta that the last reward left."""
        return theta_of(state, dim)


class FittedPolicy(RefitPolicy):
    """A policy whose theta is the ridge estimate from all rewards, or a perturbation of it.

    O(t d) to learn, because each fit starts at the last estimate.
    """

    layout: ClassVar[StateLayout] = FITTED

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward and refit theta, without a perturbation."""
        dim = x.shape[0]
        state = add_observation(state, fitted_rows_at(dim), x, reward)
        if state[LEARNED] >= settings.warm_up:
            fit_again(state, settings, theta_of(state, dim), x, reward, link)
        return state


@jittable
def add_observation(state: Floats, rows_at: int, x: Floats, reward: float) -> Floats:
    """Store a reward and count it. Returns the state, which may be a larger array."""
    state = remember(state, rows_at, x, reward)
    state[LEARNED] += 1.0
    return state


@jittable
def fit_again(state: Floats, settings: Any, theta: Floats, x: Floats, reward: float, link: LinkFunctions) -> None:
    """Overwrite theta, the last estimate, with the fit to all rewards.

    (x, reward) is the newest observation, which the history already contains.
    """
    dim = x.shape[0]
    rows, memory = history(state, fitted_rows_at(dim), dim), memory_of(state, dim)
    absorb(theta, memory, x, reward, link)
    refit(rows.features, rows.rewards, rows.counts, settings.ridge, np.zeros(dim), False, theta, memory, link)
