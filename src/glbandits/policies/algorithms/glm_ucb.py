"""GLM-UCB: maximum likelihood with a bonus on the reward (Filippi et al., 2010)."""

from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.cholesky import rank_one_update
from glbandits.maths.fitting.fit_in_ball import match_means_in_ball
from glbandits.maths.fitting.observation_history import history
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_and_norm
from glbandits.maths.vectors import copy_to
from glbandits.policies.contract import Bounds, Grid, NonNegative, PolicyInfo, Positive
from glbandits.policies.shared.mle_policy import (
    LEARNED,
    MlePolicy,
    factor_of,
    history_at,
    remember_and_fit,
    theta_in_ball_of,
    theta_of,
)  # fmt: skip
from glbandits.policies.shared.shared_settings import EXPLORATIONS, FACTORS


class GlmUcb(MlePolicy):
    """Pull the largest mu(x'theta) + rho ||x||_{M^-1}, with M = lambda I + sum xx'.

    1. Pull tau arms at random.
    2. Each round: theta_hat = maximum likelihood estimate from all rewards. If ||theta_hat|| <= S, theta = theta_hat.
       Otherwise theta is a projection of theta_hat onto that ball: the point whose sum of mu(x_s'theta) x_s is closest
       to that of theta_hat in the norm of M^-1.
    3. Pull the arm. The bonus is added to the expected reward, not to the score as in UCB-GLM.

    The other settings are those of `MlePolicy`. exploration is rho, and prior_precision is lambda. O(K d^2) to choose,
    O(t d) to learn.

    Args:
        bound: S.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import GlmUcb
    >>> bandit = Bandit(GlmUcb(warm_up=2, exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glm-ucb"
    estimate: ClassVar[str] = "theta_in_ball"
    scores_are_rewards: ClassVar[bool] = True
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "ridge", "bound", "tau")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS, "warm_up_factor": FACTORS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="t d", memory="t d", page="ucb-glm",
        guarantee="d sqrt(T)/kappa", use_when="a small bound of ||theta*|| is known; the first GLM bandit algorithm",
    )  # fmt: skip

    exploration: NonNegative = 1.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    prior_precision: Positive = 1.0

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write mu(x'theta) + rho ||x||_{M^-1} of each arm."""
        dim = arms.shape[1]
        R, rho = factor_of(state, dim), settings.exploration  # R'R = M
        theta, scratch = theta_in_ball_of(state, dim), np.empty(dim)
        for a in range(arms.shape[0]):
            score, length = score_and_norm(arms, a, theta, R, scratch)
            out[a] = link.mean(score) + rho * length

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, refit theta_hat, update M, and project theta_hat onto the ball."""
        state, dim = remember_and_fit(state, settings, x, reward, link), x.shape[0]
        R = factor_of(state, dim)
        rank_one_update(R, 1.0, x)
        if state[LEARNED] >= settings.tau:
            rows, bound = history(state, history_at(dim), dim), settings.bound
            theta, ridge = theta_of(state, dim), settings.ridge
            inside = match_means_in_ball(rows.features, rows.counts, ridge, R, bound, theta, link)
            copy_to(theta_in_ball_of(state, dim), inside)
        return state
