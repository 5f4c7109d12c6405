"""ECOLog: one proximal step a reward, and optimism (ada-OFU-ECOLog of Faury, Abeille, Jun and Calauzenes, 2022)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glbandits.numba_support import jittable
from glbandits.policy import Card, Grid, settle
from glbandits.errors import InvalidInput, number
from glbandits.policy_bases.confidence import BY_THEORY, Width
from glbandits.policy_bases.grids import EXPLORATIONS
from glbandits.maths.cholesky import factorise, solve_factorised, update
from glbandits.maths.constrained import match_means_in_ball
from glbandits.maths.gaussian import best_with_bonus, matched_width
from glbandits.maths.observation_history import first_history, history, history_fits, refit, remember
from glbandits.maths.links import Link, LinkFunctions, find_link, slope_range
from glbandits.maths.proximal import proximal_step
from glbandits.maths.vectors import copy_to, dot, point_mass
from glbandits.records import Floats, Generator

LOSSES, LEVEL, VECTORS = 0, 1, 2
"""The state: the radius' sum of losses, and the level of the set Theta; then vectors, matrices and the history."""
THETA, THETA_WARM, CENTRE = 0, 1, 2
"""The vectors: the estimate, that of the warm-up set, and the centre of Theta."""
W, V, Q = 0, 1, 2
"""The matrices: the factors of W and of the warm-up set's V, and the matrix of Theta."""
EXPLORATION, BOUND, PRECISION, FAILURE, STEP, LEAST_SLOPE, TESTED = 0, 1, 2, 3, 4, 5, 6
"""The settings in compiled code; TESTED says whether line 2 tests rewards."""


@dataclass(frozen=True, kw_only=True)
class Ecolog(Width):
    """Pull the largest x'theta + c ||x|| in W^-1, and move theta by the exact minimum of one loss and a distance.

    For each reward y of x, with ||x|| <= 1 and Theta a set in which theta* is known to be:

    1. theta_bar, theta_0, theta_1 = argmin over Theta of ||theta - theta_t||^2_W / (2 eta) plus the loss of x with
       reward 0 and 1 both, with 0, and with 1.
    2. If mu'(x'theta_bar) <= 2 mu'(x'theta_u) for u = 0 and 1, or if the step is the user's: theta = the same argmin
       with y; W += mu'(x'theta) xx'.
    3. Else y goes to the warm-up set, whose maximum likelihood estimate gives a smaller Theta.

    Logistic link only. O(K d^2) to choose, O(d^2) to learn and O(d^3) where Theta cuts in. With the theory's step the
    state keeps the rewards of line 3, and each of them costs a fit.

    Args:
        link: "logistic".
        exploration: c; None for the width that docs/theory/ecolog.md derives, with the theory's step.
        step: eta; None for the theory's 1 + sqrt(2) S. 1 is the authors' code, and makes it online Laplace inside the
            ball.
        bound: S, a bound for ||theta*||.
        prior_precision: W and V before the first reward, times I.
        failure: delta.

    >>> from glbandits import Bandit, Ecolog
    >>> bandit = Bandit(Ecolog(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ecolog"
    keeps_history: ClassVar[bool] = True
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    card: ClassVar[Card] = Card(
        choose="K d^2",
        learn="d^2",
        memory="d^2, and rewards put aside by theory",
        guarantee="d sqrt(mu'* T)",
        use_when="the same for the logistic link, by exact steps",
        page="ecolog",
    )

    link: str | Link = "logistic"
    exploration: float | None = 3.0
    bound: float = 5.0
    step: float | None = 1.0
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_link(self.link).name != "logistic":
            raise InvalidInput(f"ecolog is made for the logistic link only; got {find_link(self.link)}")
        settle(self, prior_precision=number("prior_precision", self.prior_precision, above=0))
        if self.step is not None:
            settle(self, step=number("step", self.step, above=0))

    def init(self, dim: int) -> Floats:
        """Nothing learned; Theta is the ball of radius S."""
        factor = math.sqrt(self.prior_precision) * np.eye(dim)
        matrices = np.concatenate([factor.ravel(), factor.ravel(), np.eye(dim).ravel()])
        return np.concatenate([[0.0, self.bound**2], np.zeros(3 * dim), matrices, first_history(dim)])

    def numbers(self, dim: int) -> Floats:
        """As the constants above name them."""
        c = BY_THEORY if self.exploration is None else self.exploration
        least, _ = slope_range(find_link(self.link), self.bound)
        # The theory's step is for the widest Theta there can be: D = 2 sqrt(2) S.
        theory = 1.0 + math.sqrt(2.0) * self.bound
        by_theory = self.step is None or self.exploration is None
        eta = theory if by_theory else self.step
        return np.array([c, self.bound, self.prior_precision, self.failure, eta, least, by_theory], dtype=np.float64)

    def fits(self, state: Floats, dim: int) -> bool:
        """Numbers, vectors, matrices, and a history behind them."""
        if state.ndim != 1 or not np.isfinite(state).all() or not history_fits(state, history_at(dim), dim):
            return False
        return all(bool((np.diagonal(matrix(state, dim, which)) > 0.0).all()) for which in (W, V, Q))

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """The most optimistic arm."""
        return most_optimistic(state, settings, arms)

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """One proximal step, or one more reward for the warm-up set."""
        dim, eta = x.shape[0], settings[STEP]
        theta, R = vector(state, dim, THETA), matrix(state, dim, W)
        centre, set_matrix, level = vector(state, dim, CENTRE), matrix(state, dim, Q), state[LEVEL]
        z = np.empty(3)  # line 1: the scores of theta_bar, theta_0 and theta_1
        for trial in range(3):
            times, assumed = (2.0, 0.5) if trial == 0 else (1.0, trial - 1.0)
            z[trial] = dot(x, proximal_step(theta, R, 1.0 / eta, x, assumed, times, centre, set_matrix, level, link))
        steady = link.slope(z[0]) <= 2.0 * min(link.slope(z[1]), link.slope(z[2]))
        if steady or settings[TESTED] == 0.0:  # line 2
            new = proximal_step(theta, R, 1.0 / eta, x, reward, 1.0, centre, set_matrix, level, link)
            moved = 0.0
            for k in range(dim):
                row = 0.0
                for i in range(k, dim):
                    row += R[k, i] * (new[i] - theta[i])
                moved += row * row
            there = dot(x, new)
            gained = link.antiderivative(z[0]) - link.antiderivative(there) - reward * (z[0] - there)
            state[LOSSES] += 2.0 * eta * gained - moved
            copy_to(theta, new)
            update(R, link.slope(there), x)
            return state
        state = remember(state, history_at(dim), x, reward)  # line 3
        update(matrix(state, dim, V), 1.0, x)
        shrink_set(state, settings, dim, link)
        return state

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """All on the most optimistic arm."""
        point_mass(out, most_optimistic(state, settings, arms))
        return True


@jittable
def shrink_set(state: Floats, settings: Floats, dim: int, link: LinkFunctions) -> None:
    """Theta = {||theta||^2 / S^2 + ||theta - theta_warm||^2_V / r^2 <= 2}.

    It is one ellipsoid, and holds all that is both in the ball and in the warm-up set's confidence set.
    """
    bound, least, precision = settings[BOUND], settings[LEAST_SLOPE], settings[PRECISION]
    warm, R, rows = vector(state, dim, THETA_WARM), matrix(state, dim, V), history(state, history_at(dim), dim)
    ridge = least * precision
    refit(state, history_at(dim), warm, ridge, link)
    copy_to(warm, match_means_in_ball(rows.features, rows.counts, ridge, R, bound, warm, link))
    r = matched_width(R, precision, 0.5, 0.5 * settings[FAILURE], least, bound)
    centre, set_matrix = vector(state, dim, CENTRE), matrix(state, dim, Q)
    level = 2.0
    for i in range(dim):
        pull = 0.0
        for j in range(dim):
            entry = 0.0
            for k in range(min(i, j) + 1):
                entry += R[k, i] * R[k, j] / (r * r)
            set_matrix[i, j] = entry + (1.0 / (bound * bound) if i == j else 0.0)
            pull += entry * warm[j]
        centre[i] = pull
        level -= warm[i] * pull
    factor = set_matrix.copy()
    pulled = centre.copy()
    factorise(factor, 1.0 / (bound * bound), pulled)
    solve_factorised(factor, centre)
    state[LEVEL] = level + dot(centre, pulled)


@jittable
def most_optimistic(state: Floats, settings: Floats, arms: Floats) -> int:
    """The arm with the largest x'theta + c ||x||."""
    dim = arms.shape[1]
    return best_with_bonus(arms, vector(state, dim, THETA), matrix(state, dim, W), width(state, settings))


@jittable
def width(state: Floats, settings: Floats) -> float:
    """The width c, now; docs/theory/ecolog.md derives the theory's, with D = 2 eta - 2."""
    if settings[EXPLORATION] >= 0.0:
        return float(settings[EXPLORATION])
    eta = settings[STEP]
    chance = max(2.0 * eta - 2.0, (math.e - 2.0) * 2.0 * eta) * math.log(2.0 / settings[FAILURE])
    squared = settings[PRECISION] * settings[BOUND] ** 2 + 2.0 * eta * chance + state[LOSSES]
    return math.sqrt(max(squared, 0.0))


@jittable
def vector(state: Floats, dim: int, which: int) -> Floats:
    """One of the vectors."""
    return state[VECTORS + which * dim : VECTORS + (which + 1) * dim]


@jittable
def matrix(state: Floats, dim: int, which: int) -> Floats:
    """One of the matrices."""
    place = VECTORS + 3 * dim + which * dim * dim
    return state[place : place + dim * dim].reshape(dim, dim)


@jittable
def history_at(dim: int) -> int:
    """Where the history begins."""
    return VECTORS + 3 * dim + 3 * dim * dim
