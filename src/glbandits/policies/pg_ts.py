"""PG-TS: Thompson sampling from the exact logistic posterior, by Polya-Gamma draws (Dumitrascu et al., 2018)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import jittable
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
from glbandits.maths.cholesky import add_outer, factorise, solve_factorised
from glbandits.maths.gaussian import draw_with_precision
from glbandits.maths.observation_history import history
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.polya_gamma import polya_gamma
from glbandits.maths.vectors import add_scaled, copy_to, dot
from glbandits.records import Floats, Generator

EXPLORATION, SWEEPS = MORE, MORE + 1


@dataclass(frozen=True, kw_only=True)
class PgTs(RefitEstimator):
    """Keep a draw of theta from its posterior under a normal prior, and pull the arm that it likes best.

    After each reward, M sweeps of a Gibbs sampler from the last draw:

    1. omega_s ~ PG(1, x_s'theta) for every past x_s; a row seen N times has PG(N, x_s'theta);
    2. theta ~ N(P^-1 sum (y_s - 1/2) x_s, P^-1), with P = lambda I + sum omega_s x_s x_s'.

    O(K d) to choose, O(M (t d^2 + d^3)) to learn. Logistic link only.

    Args:
        link: "logistic".
        exploration: scale of the normal numbers in line 2; 1 is the posterior, and the only scale for which it is a
            Gibbs sampler.
        sweeps: M. 1 is PG-TS-stream, 100 the paper's PG-TS.
        warm_up: pulls at random before the first draw.
        ridge: lambda, the precision of the prior, above 0.

    >>> from glbandits import Bandit, PgTs
    >>> bandit = Bandit(PgTs(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "pg-ts"
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d",
        learn="M (t d^2 + d^3)",
        memory="t d",
        guarantee="none",
        use_when="the exact logistic posterior is wanted, and t is small",
        page="pg-ts",
    )

    exploration: float = 1.0
    sweeps: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_link(self.link).name != "logistic":
            raise InvalidInput(f"pg-ts draws from the posterior of the logistic link only; got {find_link(self.link)}")
        settle(
            self,
            exploration=number("exploration", self.exploration, at_least=0),
            sweeps=whole("sweeps", self.sweeps, at_least=1),
            ridge=number("ridge", self.ridge, above=0),
        )

    def numbers(self, dim: int) -> Floats:
        """The estimator's, the exploration and the sweeps."""
        return np.append(super().numbers(dim), [self.exploration, self.sweeps])

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Remember, and draw theta again."""
        state, dim = take_in(state, x, reward), x.shape[0]
        if state[LEARNED] < settings[WARM_UP]:
            return state
        rows, theta, pull = history(state, history_at(dim), dim), theta_of(state, dim), np.zeros(dim)
        for s in range(rows.counts.shape[0]):
            add_scaled(pull, rows.counts[s] * (rows.rewards[s] - 0.5), rows.features[s])
        for _ in range(int(settings[SWEEPS])):
            P, mean = np.zeros((dim, dim)), pull.copy()
            for i in range(dim):
                P[i, i] = settings[RIDGE]
            for s in range(rows.counts.shape[0]):  # line 1
                omega = polya_gamma(int(rows.counts[s]), dot(rows.features[s], theta), rng)
                add_outer(P, omega, rows.features[s])
            factorise(P, settings[RIDGE], mean)  # line 2
            solve_factorised(P, mean)
            copy_to(theta, draw_with_precision(mean, P, settings[EXPLORATION], rng))
        return state
