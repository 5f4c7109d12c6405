"""LMC-TS: Thompson sampling by Langevin Monte Carlo (Xu et al., 2022)."""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.maths.fitting.observation_history import history
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.philox import add_normals
from glbandits.maths.vectors import add_scaled, add_scaled_row, dot, dot_row
from glbandits.policies.contract import Bounds, Grid, NonNegative, PolicyInfo, Positive, PositiveInt
from glbandits.policies.shared.refit_policy import LEARNED, RefitPolicy, add_observation, history_at, theta_of
from glbandits.policies.shared.shared_settings import EXPLORATIONS


class LmcTs(RefitPolicy):
    """Take n noisy gradient steps after each reward, and pull the best arm under theta.

    A step is theta = theta - h gradient + a sqrt(2h) xi, with xi ~ N(0, I), on the ridge loss of all rewards. The step
    size is h = step / (lambda + L sum_s ||x_s||^2), where L is the largest slope of the link. The denominator is an
    upper bound of every eigenvalue of the Hessian. With many small steps, theta is approximately N(theta_hat, a^2
    H^-1). O(K d) to choose, O(n t d) to learn. The policy needs no d x d matrix.

    Args:
        link: mu, any link with a bounded slope.
        exploration: a; a^2 is the temperature.
        steps: n.
        step: the step size in units of 1 / (lambda + L sum_s ||x_s||^2). At most 1.9: with 2 the steps do not converge.
        warm_up: the number of random pulls before the first step.
        ridge: lambda, which must be positive.

    >>> from glbandits import Bandit
    >>> from glbandits.policies import LmcTs
    >>> bandit = Bandit(LmcTs(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "lmc-ts"
    estimate_is_draw: ClassVar[bool] = True
    compiled_settings: ClassVar[tuple[str, ...] | None] = (
        "warm_up",
        "ridge",
        "exploration",
        "steps",
        "step",
        "lipschitz",
    )
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="n t d", memory="t d", page="randomised-fits",
        guarantee="d^(3/2) sqrt(T), linear rewards",
        use_when="posterior draws, if d is too large for matrices and t is small",
    )  # fmt: skip

    exploration: NonNegative = 1.0
    steps: PositiveInt = 20
    step: Annotated[float, Bounds(above=0, at_most=1.9)] = 1.0
    ridge: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isinf(self.lipschitz(1)):
            raise InvalidInput(
                f"lmc-ts needs a link with a bounded slope, because its step size depends on that; "
                f"got {find_link(self.link)}"
            )

    def lipschitz(self, dim: int) -> float:
        """The largest slope L of the link."""
        return find_link(self.link).lipschitz

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Store the reward, and take the Langevin steps."""
        state, dim = add_observation(state, history_at(x.shape[0]), x, reward), x.shape[0]
        if state[LEARNED] < settings.warm_up:
            return state
        rows, theta, ridge = history(state, history_at(dim), dim), theta_of(state, dim), settings.ridge
        largest_curvature = ridge  # an upper bound
        for s in range(rows.counts.shape[0]):
            x_s = rows.features[s]
            largest_curvature += settings.lipschitz * rows.counts[s] * dot(x_s, x_s)
        h, gradient = settings.step / largest_curvature, np.empty(dim)
        for _ in range(int(settings.steps)):
            for i in range(dim):
                gradient[i] = ridge * theta[i]
            for s in range(rows.counts.shape[0]):
                error = link.mean(dot_row(rows.features, s, theta)) - rows.rewards[s]
                add_scaled_row(gradient, rows.counts[s] * error, rows.features, s)
            add_scaled(theta, -h, gradient)
            add_normals(theta, settings.exploration * math.sqrt(2.0 * h), rng)
        return state
