"""OFUGLB-e: UCB with an estimate in a ball, from all rewards (Lee, Yun and Jun, 2024)."""

from typing import Annotated, Any, ClassVar

from glbandits.common.arrays import Floats, Generator
from glbandits.maths.fitting.fit_in_ball import refit_in_ball
from glbandits.maths.fitting.likelihood import hessian_factor
from glbandits.maths.fitting.observation_history import history, remember
from glbandits.maths.fitting.warm_fit import absorb
from glbandits.maths.links import LinkFunctions
from glbandits.maths.posteriors.gaussian_posterior import score_with_bonus
from glbandits.policies.contract import Bounds, Grid, NonNegative, NonNegativeInt, PolicyInfo, Positive
from glbandits.policies.shared.mle_policy import LEARNED, MlePolicy, factor_of, history_at, memory_of, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class OfuglbE(MlePolicy):
    """Pull the largest x'theta_hat + c ||x||_{H^-1}, with theta_hat the best fit in a ball.

    theta_hat is the maximum likelihood estimate from all rewards under ||theta|| <= S, and
    H = lambda I + sum mu'(x_s'theta_hat) x_s x_s'. The paper's width explores too much: docs/theory/ofuglb-e.md has it.

    The other settings are those of `MlePolicy`. exploration is c, and prior_precision is lambda. By default there is no
    warm-up, and the small ridge only makes the estimate unique. O(K d^2) to choose, O(t d^2) to learn.

    Args:
        bound: S.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import OfuglbE
    >>> bandit = Bandit(OfuglbE(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ofuglb-e"
    compiled_settings: ClassVar[tuple[str, ...] | None] = ("exploration", "ridge", "prior_precision", "bound", "tau")
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="t d^2", memory="t d",
        guarantee="d sqrt(mu'* T)", use_when="a reference for comparisons: all data, the tightest known ellipsoid",
    )  # fmt: skip

    exploration: NonNegative = 3.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    warm_up: NonNegativeInt | None = 0
    ridge: Positive = 1e-6
    prior_precision: Positive = 1.0

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_of(state, dim), factor_of(state, dim), settings.exploration, out)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, refit theta_hat in the ball, and factorise the Hessian there."""
        dim, ridge, bound = x.shape[0], settings.ridge, settings.bound
        state = remember(state, history_at(dim), x, reward)
        state[LEARNED] += 1.0
        if state[LEARNED] >= settings.tau:
            rows, theta, memory = history(state, history_at(dim), dim), theta_of(state, dim), memory_of(state, dim)
            absorb(theta, memory, x, reward, link)
            refit_in_ball(rows.features, rows.rewards, rows.counts, ridge, bound, theta, memory, link)
            hessian_factor(factor_of(state, dim), rows.features, rows.counts, settings.prior_precision, theta, link)
        return state
