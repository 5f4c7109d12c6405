"""LMC-TS: Thompson sampling by Langevin steps on the loss (Xu et al., 2022)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import borrowed, jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number, whole
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.policy_bases.refit_policy import (
    LEARNED,
    MORE,
    RIDGE,
    WARM_UP,
    RefitEstimator,
    history_at,
    take_in,
    theta_of,
)
from glbandits.maths.observation_history import history
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.philox import add_normals
from glbandits.maths.vectors import add_scaled, dot
from glbandits.records import Floats, Generator

EXPLORATION, STEPS, STEP, LIPSCHITZ = MORE, MORE + 1, MORE + 2, MORE + 3


@dataclass(frozen=True, kw_only=True)
class LmcTs(RefitEstimator):
    """Keep a theta that walks over the loss: n noisy gradient steps after each reward, then the arm it likes best.

    A step is theta -= h gradient, plus a sqrt(2h) xi with xi ~ N(0, I), on the loss of all rewards with its ridge. Its
    size h is a share of what is safe: step / (lambda + L sum ||x_s||^2), where L is the link's largest slope and the
    denominator is above every curvature of the loss. For small steps and many of them theta ~ N(theta_hat, a^2 H^-1),
    nearly. O(K d) to choose, O(n t d) to learn: no matrix anywhere.

    Args:
        link: mu, any link whose slope is bounded.
        exploration: a; a^2 is the temperature.
        steps: n.
        step: the share of the safe step size, at most 1.9: at 2 a walk does not settle.
        warm_up: pulls at random before the first step.
        ridge: lambda, above 0.

    >>> from glbandits import Bandit, LmcTs
    >>> bandit = Bandit(LmcTs(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "lmc-ts"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d",
        learn="n t d",
        memory="t d",
        guarantee="d^(3/2) sqrt(T), linear rewards",
        use_when="posterior draws where d is too large for matrices and t is small",
        page="lmc-ts",
    )

    exploration: float = 1.0
    steps: int = 20
    step: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        link = find_link(self.link)
        if math.isinf(link.lipschitz):
            raise InvalidInput(f"lmc-ts needs a link whose slope is bounded, for a step that is safe; got {link}")
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            steps=whole("steps", self.steps, at_least=1),
            step=number("step", self.step, above=0, at_most=1.9),
            ridge=number("ridge", self.ridge, above=0),
        )

    def numbers(self, dim: int) -> Floats:
        """The estimator's, then as the constants above name them."""
        more = [self.exploration, self.steps, self.step, find_link(self.link).lipschitz]
        return np.append(super().numbers(dim), more)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, and walk."""
        state, dim = take_in(state, x, reward), x.shape[0]
        if state[LEARNED] < settings[WARM_UP]:
            return state
        here = borrowed(state)
        rows, theta, ridge = history(here, history_at(dim), dim), theta_of(here, dim), settings[RIDGE]
        trace = ridge
        for s in range(rows.counts.shape[0]):
            trace += settings[LIPSCHITZ] * rows.counts[s] * dot(rows.features[s], rows.features[s])
        h, gradient = settings[STEP] / trace, np.empty(dim)
        for _ in range(int(settings[STEPS])):
            for i in range(dim):
                gradient[i] = ridge * theta[i]
            for s in range(rows.counts.shape[0]):
                error = link.mean(dot(rows.features[s], theta)) - rows.rewards[s]
                add_scaled(gradient, rows.counts[s] * error, rows.features[s])
            add_scaled(theta, -h, gradient)
            add_normals(theta, settings[EXPLORATION] * math.sqrt(2.0 * h), rng)
        return state
