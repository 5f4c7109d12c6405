"""ECOLog, a UCB rule on a one-pass estimate for the logistic link.

This is ada-OFU-ECOLog of Faury, Abeille, Jun and Calauzenes (2022).
"""

import math
from typing import Annotated, Any, ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import jittable
from glbandits.maths.cholesky import drop_overflow, factorise, rank_one_update, solve_factorised
from glbandits.maths.fitting.fit_in_ball import match_means_in_ball
from glbandits.maths.fitting.likelihood import fit
from glbandits.maths.fitting.observation_history import history, remember
from glbandits.maths.links import LinkFunctions, find_link
from glbandits.maths.posteriors.gaussian_posterior import matched_width, score_with_bonus
from glbandits.maths.proximal import proximal_step
from glbandits.maths.vectors import copy_to, dot
from glbandits.policies.contract import AnyLink, Bounds, Grid, NonNegative, PolicyInfo, Positive, StateLayout, derived
from glbandits.policies.shared.shared_settings import EXPLORATIONS, ExplorationSettings

LAYOUT = StateLayout()
LOSSES, LEVEL = LAYOUT.scalar("losses"), LAYOUT.scalar("level")
"""The sum of losses in the width; and the level of Theta = {(theta - centre)'Q(theta - centre) <= level}."""
theta_of, theta_warm_of, centre_of = LAYOUT.vector("theta"), LAYOUT.vector("theta_warm"), LAYOUT.vector("centre")
"""The estimate, the estimate from the warm-up set, and the centre of Theta."""
W_of, V_of, Q_of = LAYOUT.factor("W"), LAYOUT.factor("V"), LAYOUT.matrix("Q")
"""The Cholesky factors of W and of V, the matrix of the warm-up set; and the matrix Q of Theta."""
history_at = LAYOUT.history()
"""The rewards of the warm-up set."""


class Ecolog(ExplorationSettings):
    """Pull the largest x'theta + c ||x||_{W^-1}; update theta by one proximal step per reward.

    Theta is a confidence set for theta*, at first the ball of radius S. For each reward y of an arm x with ||x|| <= 1:

    1. Minimise ||theta - theta_t||^2_W / (2 eta) plus a loss over Theta. With the loss of reward 0 the minimum is
       theta_0, with that of reward 1 it is theta_1, and with the sum of both losses it is theta_bar.
    2. If mu'(x'theta_bar) <= 2 mu'(x'theta_u) for u = 0 and 1, or if `step` was given: theta = the minimum with the
       loss of y; W += mu'(x'theta) xx'.
    3. Otherwise add (x, y) to the warm-up set. Its maximum likelihood estimate makes Theta smaller.

    Logistic link only. O(K d^2) to choose. O(d^2) to learn, and O(d^3) if the minimum is on the boundary of Theta. With
    the theory's step the state stores the warm-up set, and each reward of line 3 requires a fit.

    Args:
        link: "logistic".
        exploration: c. None uses the width that docs/theory/ecolog.md derives, and the theory's step.
        step: eta. None uses the theory's 1 + sqrt(2) S. With 1, as in the authors' code, the policy is online Laplace
            as long as theta is inside the ball.
        bound: S, an upper bound of ||theta*||.
        prior_precision: the initial W and V are this times I.
        failure: delta, the probability that the theory's width is too small.

    >>> from glbandits import Bandit, Ecolog
    >>> bandit = Bandit(Ecolog(exploration=0.0), dim=1, seed=1)
    >>> bandit.learn_batch([[1.0], [1.0], [1.0]], [1.0, 1.0, 0.0])
    >>> bandit.choose([[0.2], [0.5], [-0.7]])
    1
    """

    name: ClassVar[str] = "ecolog"
    layout: ClassVar[StateLayout] = LAYOUT
    grid: ClassVar[Grid] = {"exploration": EXPLORATIONS}
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d^2", learn="d^2", memory="d^2, and the warm-up set with the theory's step",
        guarantee="d sqrt(mu'* T)", use_when="as glb-omd, for the logistic link, by exact steps",
    )  # fmt: skip

    link: AnyLink = "logistic"
    exploration: NonNegative | None = 3.0
    bound: Annotated[float, Bounds(above=0, at_most=1e3)] = 5.0
    step: Positive | None = 1.0
    prior_precision: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_link(self.link).name != "logistic":
            raise InvalidInput(f"ecolog supports only the logistic link; got {find_link(self.link)}")

    @derived
    def is_tested(self, dim: int) -> bool:
        """Whether line 2 tests the slopes: only with the theory's step."""
        return self.step is None or self.exploration is None

    @derived
    def eta(self, dim: int) -> float:
        """The step size. The theory's is for the largest possible diameter of Theta, 2 sqrt(2) S."""
        if self.step is None or self.exploration is None:
            return 1.0 + math.sqrt(2.0) * self.bound
        return self.step

    def init(self, dim: int) -> Floats:
        """Return the initial state, in which Theta is the ball of radius S."""
        return LAYOUT.allocate(dim, level=self.bound**2, W=self.prior_precision, V=self.prior_precision, Q=1.0)

    @staticmethod
    def index(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> None:
        """Write the upper confidence bound of each arm."""
        dim = arms.shape[1]
        score_with_bonus(arms, theta_of(state, dim), W_of(state, dim), width(state, settings), out)

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take one proximal step, or add the reward to the warm-up set."""
        dim, eta = x.shape[0], settings.eta
        theta, R = theta_of(state, dim), W_of(state, dim)
        centre, Q, level = centre_of(state, dim), Q_of(state, dim), state[LEVEL]
        z = np.empty(3)  # line 1: the scores of theta_bar, theta_0 and theta_1
        for trial in range(3):
            times, assumed = (2.0, 0.5) if trial == 0 else (1.0, trial - 1.0)
            z[trial] = dot(x, proximal_step(theta, R, 1.0 / eta, x, assumed, times, centre, Q, level, link))
        steady = link.slope(z[0]) <= 2.0 * min(link.slope(z[1]), link.slope(z[2]))
        if steady or settings.is_tested == 0.0:  # line 2
            new = proximal_step(theta, R, 1.0 / eta, x, reward, 1.0, centre, Q, level, link)
            moved = 0.0
            for k in range(dim):
                row = 0.0
                for i in range(k, dim):
                    row += R[k, i] * (new[i] - theta[i])
                moved += row * row
            new_score = dot(x, new)
            gained = link.antiderivative(z[0]) - link.antiderivative(new_score) - reward * (z[0] - new_score)
            state[LOSSES] += 2.0 * eta * gained - moved
            copy_to(theta, new)
            rank_one_update(R, link.slope(new_score), x)
            return state
        state = remember(state, history_at(dim), x, reward)  # line 3
        rank_one_update(V_of(state, dim), 1.0, x)
        shrink_set(state, settings, dim, link)
        return state


@jittable
def shrink_set(state: Floats, settings: Any, dim: int, link: LinkFunctions) -> None:
    """Set Theta = {||theta||^2 / S^2 + ||theta - theta_warm||^2_V / r^2 <= 2}.

    This ellipsoid contains the intersection of the ball with the confidence set around theta_warm.
    """
    bound, least, precision = settings.bound, settings.least_slope, settings.prior_precision
    warm, R, rows = theta_warm_of(state, dim), V_of(state, dim), history(state, history_at(dim), dim)
    ridge = least * precision
    copy_to(warm, fit(rows.features, rows.rewards, rows.counts, ridge, warm, link).theta)
    copy_to(warm, match_means_in_ball(rows.features, rows.counts, ridge, R, bound, warm, link))
    r = matched_width(R, precision, 0.5, 0.5 * settings.failure, least, bound)
    centre, Q = centre_of(state, dim), Q_of(state, dim)
    level = 2.0
    for i in range(dim):
        pull = 0.0
        for j in range(dim):
            entry = 0.0
            for k in range(min(i, j) + 1):
                entry += R[k, i] * R[k, j] / (r * r)
            Q[i, j] = entry + (1.0 / (bound * bound) if i == j else 0.0)
            pull += entry * warm[j]
        centre[i] = pull
        level -= warm[i] * pull
    factor = Q.copy()
    pulled = centre.copy()
    factorise(factor, 1.0 / (bound * bound), pulled)
    solve_factorised(factor, centre)
    drop_overflow(centre)
    state[LEVEL] = level + dot(centre, pulled)


@jittable
def width(state: Floats, settings: Any) -> float:
    """The current width c. docs/theory/ecolog.md derives the theory's, with D = 2 eta - 2."""
    if settings.exploration >= 0.0:
        return float(settings.exploration)
    eta = settings.eta
    deviation = max(2.0 * eta - 2.0, (math.e - 2.0) * 2.0 * eta) * math.log(2.0 / settings.failure)
    squared = settings.prior_precision * (settings.bound * settings.bound) + 2.0 * eta * deviation + state[LOSSES]
    return math.sqrt(max(squared, 0.0))
