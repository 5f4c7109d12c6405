"""GLB-OMD: optimism round a one-pass online mirror descent estimate (Zhang, Xu, Zhao and Sugiyama, 2025)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import number
from glbandits.policy_bases.confidence import BY_THEORY, Width
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.maths.gaussian_posterior import belief_fits, factor_of, first_belief, mean_of
from glbandits.maths.cholesky import solve_factorised, update
from glbandits.maths.gaussian import best_with_bonus
from glbandits.maths.links import Link, LinkFunctions, find_link, self_concordance, slope_range
from glbandits.maths.projection import project_in_norm
from glbandits.maths.vectors import add_scaled, copy_to, dot, norm, point_mass
from glbandits.records import Floats, Generator

LEARNED, BELIEF = 0, 1
"""The state: rewards learned; then theta and the factor of H."""
EXPLORATION, STEP, BOUND, PRECISION, FAILURE, LARGEST_SLOPE = 0, 1, 2, 3, 4, 5
"""The settings in compiled code."""


@dataclass(frozen=True, kw_only=True)
class GlbOmd(Width):
    """Pull the largest x'theta + beta ||x|| in H^-1, and move theta by one projected step for each reward.

    With eta = 1 + R S, where R bounds |mu''|/mu', and g = mu(x'theta) - y:

    1. theta' = theta - eta g H~^-1 x, with H~ = H + eta mu'(x'theta) xx';
    2. theta = the projection of theta' onto ||theta|| <= S in the norm of H~;
    3. H += mu'(x'theta) xx', at the new theta.

    O(K d^2) to choose, O(d^2) to learn and O(d^3) where the projection has work to do. No history.

    Args:
        link: mu, any link; the theory is for canonical ones.
        exploration: beta; None for the theory's, beta^2 = 4 lambda S^2 + 2 eta log(1/delta)
            + d eta (1 + 6 eta) log(1 + mu'_max t/(lambda d)).
        step: eta; None for the theory's, which exploration=None takes too.
        bound: S, a bound for ||theta*||.
        prior_precision: lambda, H before the first reward, times I; None for the theory's max(14 d eta R^2, 6 eta R S
            mu'_max). The paper's experiments take d.
        failure: delta, for the theory's beta only.

    >>> from glbandits import Bandit, GlbOmd
    >>> bandit = Bandit(GlbOmd(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "glb-omd"
    keeps_history: ClassVar[bool] = False
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="d^2",
        memory="d^2",
        guarantee="d sqrt(mu'* T)",
        use_when="constant cost with the best known proof",
        page="glb-omd",
    )

    link: str | Link = "logistic"
    exploration: float | None = 3.0
    bound: float = 5.0
    step: float | None = 1.0
    prior_precision: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        find_link(self.link)
        if self.prior_precision is not None:
            settle(self, prior_precision=number("prior_precision", self.prior_precision, above=0))
        if self.step is not None:
            settle(self, step=number("step", self.step, above=0))

    def eta(self) -> float:
        """The step."""
        if self.step is not None and self.exploration is not None:
            return self.step
        return 1.0 + self.bound * self_concordance(find_link(self.link), self.bound)

    def precision(self, dim: int) -> float:
        """Lambda. Where R = 0, as for the identity, theory asks for none, and 1 is taken."""
        if self.prior_precision is not None and self.exploration is not None:
            return self.prior_precision
        eta, R = self.eta(), self_concordance(find_link(self.link), self.bound)
        _, steepest = slope_range(find_link(self.link), self.bound)
        return max(14.0 * dim * eta * R**2, 6.0 * eta * R * self.bound * steepest) or 1.0

    def init(self, dim: int) -> Floats:
        """Nothing learned, theta = 0, H = lambda I."""
        return np.append(0.0, first_belief(dim, self.precision(dim)))

    def numbers(self, dim: int) -> Floats:
        """As the constants above name them."""
        beta = BY_THEORY if self.exploration is None else self.exploration
        _, steepest = slope_range(find_link(self.link), self.bound)
        return np.array([beta, self.eta(), self.bound, self.precision(dim), self.failure, steepest])

    def fits(self, state: Floats, dim: int) -> bool:
        """A count and a belief."""
        return state.ndim == 1 and belief_fits(state[BELIEF:], dim) and bool(0.0 <= state[LEARNED] < np.inf)

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        return most_optimistic(state, settings, arms)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """One step of mirror descent."""
        dim, eta = x.shape[0], settings[STEP]
        theta, R = mean_of(state[BELIEF:], dim), factor_of(state[BELIEF:], dim)
        z = dot(x, theta)
        direction = np.empty(dim)
        copy_to(direction, x)
        solve_factorised(R, direction)
        # H~^-1 x is H^-1 x / (1 + eta mu' x'H^-1 x): lines 1 and 2
        shorter = 1.0 + eta * link.slope(z) * dot(x, direction)
        add_scaled(theta, eta * (reward - link.mean(z)) / shorter, direction)
        if norm(theta) > settings[BOUND]:
            stepped = R.copy()
            update(stepped, eta * link.slope(z), x)
            project_in_norm(theta, stepped, settings[BOUND])
        update(R, link.slope(dot(x, theta)), x)  # line 3
        state[LEARNED] += 1.0
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        point_mass(out, most_optimistic(state, settings, arms))
        return True


@jittable
def most_optimistic(state: Floats, settings: Floats, arms: Floats) -> int:
    """The arm with the largest x'theta + beta ||x||."""
    dim, belief = arms.shape[1], state[BELIEF:]
    return best_with_bonus(arms, mean_of(belief, dim), factor_of(belief, dim), width(state, settings, dim))


@jittable
def width(state: Floats, settings: Floats, dim: int) -> float:
    """Beta, now."""
    if settings[EXPLORATION] >= 0.0:
        return float(settings[EXPLORATION])
    eta, precision = settings[STEP], settings[PRECISION]
    growth = math.log(1.0 + settings[LARGEST_SLOPE] * state[LEARNED] / (precision * dim))
    squared = 4.0 * precision * settings[BOUND] ** 2 + 2.0 * eta * math.log(1.0 / settings[FAILURE])
    return math.sqrt(squared + dim * eta * (1.0 + 6.0 * eta) * growth)
