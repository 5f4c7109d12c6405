"""PG-TS: Thompson sampling from the exact logistic posterior by Polya-Gamma augmentation.

Dumitrascu, Feng and Engelhardt (2018).
"""

from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.maths.cholesky import add_outer, drop_overflow, factorise, solve_factorised
from glbandits.maths.fitting.observation_history import history
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.posteriors.gaussian_posterior import draw_with_precision
from glbandits.maths.posteriors.polya_gamma import polya_gamma
from glbandits.maths.vectors import add_scaled_row, copy_to, dot_row
from glbandits.policies.contract import Grid, NonNegative, PolicyInfo, Positive, PositiveInt
from glbandits.policies.shared.refit_policy import LEARNED, RefitPolicy, add_observation, history_at, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class PgTs(RefitPolicy):
    """Draw theta from its exact posterior after each reward, and pull the best arm under it.

    The prior is N(0, I/lambda). After each reward a Gibbs sampler makes M sweeps, starting from the last theta:

    1. omega_s ~ PG(1, x_s'theta) for every past x_s; for a row seen N times, PG(N, x_s'theta);
    2. theta ~ N(P^-1 sum (y_s - 1/2) x_s, P^-1), with P = lambda I + sum omega_s x_s x_s'.

    O(K d) to choose, O(M (t d^2 + d^3)) to learn. Logistic link only.

    Args:
        link: "logistic".
        exploration: the scale of the normal draw in line 2. Only with 1 is this a Gibbs sampler of the posterior.
        sweeps: M. 1 is PG-TS-stream, 100 the paper's PG-TS.
        warm_up: the number of random pulls before the first draw.
        ridge: lambda, the prior precision, which must be positive.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import PgTs
    >>> bandit = Bandit(PgTs(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "pg-ts"
    estimate_is_draw: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="M (t d^2 + d^3)", memory="t d", page="randomised-fits",
        guarantee="none", use_when="the exact logistic posterior is wanted, and t is small",
    )  # fmt: skip

    exploration: NonNegative = 1.0
    sweeps: PositiveInt = 1
    ridge: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_link(self.link).name != "logistic":
            raise InvalidInput(f"pg-ts supports only the logistic link; got {find_link(self.link)}")

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, and run the Gibbs sampler."""
        state, dim = add_observation(state, history_at(x.shape[0]), x, reward), x.shape[0]
        if state[LEARNED] < settings.warm_up:
            return state
        rows, theta, pull = history(state, history_at(dim), dim), theta_of(state, dim), np.zeros(dim)
        for s in range(rows.counts.shape[0]):
            add_scaled_row(pull, rows.counts[s] * (rows.rewards[s] - 0.5), rows.features, s)
        for _ in range(int(settings.sweeps)):
            P, mean = np.zeros((dim, dim)), pull.copy()
            for i in range(dim):
                P[i, i] = settings.ridge
            for s in range(rows.counts.shape[0]):  # line 1
                omega = polya_gamma(int(rows.counts[s]), dot_row(rows.features, s, theta), rng)
                add_outer(P, omega, rows.features[s])
            factorise(P, settings.ridge, mean)  # line 2
            solve_factorised(P, mean)
            drop_overflow(mean)
            copy_to(theta, draw_with_precision(mean, P, settings.exploration, rng))
        return state
