"""SGD-TS: online SGD with Thompson sampling (Ding, Hsieh and Sharpnack, 2021)."""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numba import types

from glbandits.common.arrays import Floats, Generator
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import READ_VECTOR, VECTOR, jittable
from glbandits.compilation.shared_functions import shared
from glbandits.maths.fitting.likelihood import fit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals
from glbandits.maths.vectors import add_scaled, copy_to, dot, project_to_ball
from glbandits.policies.contract import (
    AnyLink,
    Bounds,
    Grid,
    NonNegative,
    Policy,
    PolicyInfo,
    Positive,
    PositiveInt,
    Probability,
    StateLayout,
)
from glbandits.policies.shared.sgd_ts_theory import TheoryConstants, variance
from glbandits.policies.shared.shared_settings import EXPLORATIONS, FACTORS, STEPS, warm_up_length

LAYOUT = StateLayout()
POSITION, BLOCK = LAYOUT.count("position"), LAYOUT.count("block")
"""The number of rewards in the current block, and j, the number of complete blocks."""
FITTED_RIDGE, CONVERGED = LAYOUT.scalar("fitted_ridge"), LAYOUT.scalar("converged")
"""The ridge with which line 2 was solved, and whether its solver converged."""
theta_hat_of, theta_tilde_of = LAYOUT.vector("theta_hat"), LAYOUT.vector("theta_tilde")
theta_bar_of, gradient_of = LAYOUT.vector("theta_bar"), LAYOUT.vector("gradient")
draws_at = LAYOUT.end()
"""The offset of the draws theta_TS of the current block. In the first block, room for its rows and rewards follows."""
ROOM_FOR_THEORY = 10_000
"""The number of rewards for which a state with `theory` has room at the start; doubled whenever it is full."""


class SgdTs(Policy):
    """Algorithm 1 of the SGD-TS paper: one gradient step and one posterior draw per block.

    Comments in the code refer to these lines of the algorithm (13 and 15 only end an "if" and a "for")::

         1. In rounds 1 .. tau pull random arms, and record X_t and Y_t.
         2. theta_hat = maximum likelihood estimate from these rewards.
         3. C = {theta: ||theta - theta_hat|| <= 2}.
         4. theta_tilde_0 = theta_hat.
         5. For t = tau + 1, tau + 2, ...:
         6.   If a block of tau rewards has just been completed:
         7.     j = number of complete blocks; eta_j = eta / j.
         8.     g_j = gradient of the loss of block j at theta_tilde_{j-1}.
         9.     theta_tilde_j = projection of theta_tilde_{j-1} - eta_j g_j onto C.
        10.     theta_bar_j = mean of theta_tilde_1 .. theta_tilde_j.
        11.     A_j = ((2 a1^2 + 2 a2^2) / j) I.
        12.     Draw theta_TS ~ N(theta_bar_j, A_j).
        14.   Pull the arm with the largest x'theta_TS, and observe its reward Y_t.

    The first block is block 1: theta_hat makes its gradient zero, so theta_tilde_1 = theta_hat. O(K d) to choose, O(d)
    to learn. After the first block the state contains only a few vectors of length d.

    Args:
        link: mu, any strictly increasing link.
        block_factor: tau = floor(block_factor max(log T, d)). Without a horizon, tau = floor(block_factor d). The paper
            calls this factor C, like the set of line 3.
        block_length: tau itself, instead of block_factor.
        horizon: T, if it is known.
        step: eta in eta_j = eta / j.
        exploration_a1: a1 in A_j. Only a1^2 + a2^2 matters.
        exploration_a2: a2 in A_j.
        theory: compute tau, eta_j = 1/(alpha j) and A_j from the theory, instead of from the settings above. Its first
            block is usually longer than the horizon, so all decisions are random.
        draw: "block" uses one draw for a block, as in the paper. "decision" draws again for each decision.
            "candidates" makes several draws at the start of a block, and each decision uses a random one of them. The
            probability of every arm is then known exactly, and is neither 0 nor 1 while the draws disagree.
        candidates: the number of draws for "candidates".
        floor: pull a random arm with this probability, so that every arm has probability at least floor/K.
        radius: the radius of C.
        ridge: the ridge penalty of the maximum likelihood fit; 0 in the paper.

    docs/theory/sgd-ts.md lists the deviations from the paper.

    >>> from glbandits import Bandit, SgdTs
    >>> bandit = Bandit(SgdTs(link="logistic", horizon=1000), dim=6, seed=7)
    >>> bandit.policy.tau(6)
    69
    """

    name: ClassVar[str] = "sgd-ts"
    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "theta_bar"
    compiled_settings: ClassVar[tuple[str, ...] | None] = (
        "floor",
        "radius",
        "ridge",
        "tau",
        "eta",
        "plain_variance",
        "mle_variance",
        "gap_variance",
        "log_T",
        "draws_per_block",
    )
    grid: ClassVar[Grid] = {
        "block_factor": FACTORS,
        "step": STEPS,
        "exploration_a1": EXPLORATIONS,
        "exploration_a2": EXPLORATIONS,
    }
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="d", memory="d",
        guarantee="sqrt(T), if greedy contexts are diverse",
        use_when="d is large and contexts vary; the algorithm of the SGD-TS paper",
    )  # fmt: skip

    block_factor: Annotated[float, Bounds(above=0, at_most=1e9)] = 10.0
    block_length: Annotated[int, Bounds(at_least=1, at_most=1e9)] | None = None
    horizon: PositiveInt | None = None
    step: Positive = 1.0
    exploration_a1: NonNegative = 0.01
    exploration_a2: NonNegative = 0.01
    theory: TheoryConstants | None = None
    link: AnyLink = "logistic"
    draw: Literal["block", "decision", "candidates"] = "block"
    candidates: Annotated[int, Bounds(at_least=1, at_most=1e6)] = 100
    floor: Probability = 0.0
    radius: Positive = 2.0
    ridge: NonNegative = 0.0

    @staticmethod
    def random_share(state: Floats, settings: Any) -> float:
        """Line 1: all arms are random in the first block."""
        return 1.0 if state[BLOCK] == 0.0 else float(settings.floor)

    @staticmethod
    def draw_count(state: Floats, settings: Any) -> int:
        """The number of draws theta_TS in the state; 0 for draw="decision"."""
        return int(settings.draws_per_block)

    @staticmethod
    def theta(state: Floats, settings: Any, dim: int, draw: int, rng: Generator) -> Floats:
        """Line 14: return theta_TS. The arm with the largest x'theta_TS is pulled."""
        if settings.draws_per_block > 0.0:
            return block_draw(state, dim, draw)
        theta_ts = theta_bar_of(state, dim).copy()  # draw="decision"
        add_normals(theta_ts, math.sqrt(variance(settings, state[BLOCK], dim)), rng)
        return theta_ts

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Lines 1 and 8: learn one reward. The last reward of a block also runs lines 2 to 4 and 7 to 12."""
        dim, in_first_block = x.shape[0], state[BLOCK] == 0.0
        if in_first_block:
            state = record_row(state, first_rows_at(settings, dim), int(settings.tau), x, reward)  # line 1
        else:
            # Line 8: add a term to the gradient. theta_tilde is constant during a block, so rows need not be stored.
            error = link.mean(dot(x, theta_tilde_of(state, dim))) - reward
            add_scaled(gradient_of(state, dim), error, x)
        state[POSITION] += 1.0
        if state[POSITION] >= settings.tau:  # line 6
            if in_first_block:
                state = fit_first_block(state, settings, dim, link)  # lines 2 to 4
            complete_block(state, settings, dim, rng)  # lines 7 to 12
        return state

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("block_factor", "block_length", "horizon", "step", "exploration_a1", "exploration_a2"):
            if self.theory is not None and getattr(self, name) != getattr(type(self), name):
                raise InvalidInput(
                    f"theory sets the block length, the step and the exploration; got {name}={getattr(self, name)!r} "
                    "as well. Omit one of the two."
                )

    def tau(self, dim: int) -> int:
        """The block length."""
        if self.theory is not None:
            return self.theory.block_length(dim)
        if self.block_length is not None:
            return self.block_length
        return warm_up_length(self.block_factor, self.horizon, dim)

    def random_start(self, dim: int) -> int:
        return self.tau(dim)

    def eta(self, dim: int) -> float:
        """The step size of block 1. That of block j is eta / j."""
        return self.step if self.theory is None else 1 / self.theory.alpha(dim)

    def plain_variance(self, dim: int) -> float:
        """The diagonal entry of j A_j in line 11; 0 with `theory`."""
        return 2 * self.exploration_a1**2 + 2 * self.exploration_a2**2 if self.theory is None else 0.0

    def mle_variance(self, dim: int) -> float:
        """The factor of equation 6 in j A_j; 0 without `theory`."""
        return 0.0 if self.theory is None else self.theory.mle_variance(dim)

    def gap_variance(self, dim: int) -> float:
        """The factor of equation 7 in j A_j; 0 without `theory`."""
        return 0.0 if self.theory is None else self.theory.gap_variance(dim)

    def log_T(self, dim: int) -> float:  # noqa: N802
        """The logarithm of the horizon of `theory`; 0 without `theory`."""
        return 0.0 if self.theory is None else math.log(self.theory.horizon)

    def draws_per_block(self, dim: int) -> int:
        """The number of draws theta_TS that are made at the start of a block."""
        return {"block": 1, "decision": 0, "candidates": self.candidates}[self.draw]

    def first_room(self, dim: int) -> int:
        """The number of rewards of the first block for which a new state has room.

        All of them, except with `theory`: its first block may be longer than any memory, and than the horizon.
        """
        return self.tau(dim) if self.theory is None else min(self.tau(dim), ROOM_FOR_THEORY)

    def init(self, dim: int) -> Floats:
        """Return zeros, with room for the rows of the first block."""
        return LAYOUT.allocate(dim, tail=self.draws_per_block(dim) * dim + self.first_room(dim) * (dim + 1))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        if state.ndim != 1 or state.size <= BLOCK or not state[POSITION] < self.tau(dim):
            return False
        draws, room = self.draws_per_block(dim) * dim, 0
        if state[BLOCK] == 0.0:  # room for the rows and rewards of the first block
            room = (state.size - draws_at(dim) - draws) // (dim + 1)
            if not max(self.first_room(dim), state[POSITION]) <= room <= self.tau(dim):
                return False
        return LAYOUT.is_valid(state, dim, tail=draws + room * (dim + 1))


@shared(VECTOR(VECTOR, types.int64, types.int64, READ_VECTOR, types.float64))
def record_row(state: Floats, rows_at: int, tau: int, x: Floats, reward: float) -> Floats:
    """Line 1: record X_t and Y_t in the rows of the first block. Returns the state, which may be a larger array."""
    dim, row = x.shape[0], int(state[POSITION])
    room = (state.shape[0] - rows_at) // (dim + 1)
    if row == room:
        smaller, room = state, min(2 * room, tau)
        state = np.zeros(rows_at + room * (dim + 1))
        copy_to(state, smaller[: rows_at + row * dim])
        copy_to(state[rows_at + room * dim :], smaller[rows_at + row * dim :])
    copy_to(state[rows_at + row * dim : rows_at + (row + 1) * dim], x)
    state[rows_at + room * dim + row] = reward
    return state


@jittable
def fit_first_block(state: Floats, settings: Any, dim: int, link: LinkFunctions) -> Floats:
    """Lines 2 to 4. Returns the state without the recorded rows, which are no longer needed."""
    tau, rows_at = int(settings.tau), first_rows_at(settings, dim)
    X, Y = state[rows_at : rows_at + tau * dim].reshape(tau, dim), state[rows_at + tau * dim :]
    estimate = fit(X, Y, np.ones(tau), settings.ridge, np.zeros(dim), link)
    state[FITTED_RIDGE] = estimate.ridge
    state[CONVERGED] = 1.0 if estimate.converged else 0.0
    copy_to(theta_hat_of(state, dim), estimate.theta)  # lines 2 and 3: theta_hat is the centre of C
    copy_to(theta_tilde_of(state, dim), estimate.theta)  # line 4
    return state[:rows_at].copy()


@jittable
def complete_block(state: Floats, settings: Any, dim: int, rng: Generator) -> None:
    """Lines 7 to 12. `learn` has summed the gradient of line 8; that of block 1 is zero."""
    theta_hat, theta_tilde = theta_hat_of(state, dim), theta_tilde_of(state, dim)
    theta_bar, gradient = theta_bar_of(state, dim), gradient_of(state, dim)
    state[BLOCK] += 1.0
    j = state[BLOCK]
    eta_j = settings.eta / j  # line 7
    add_scaled(theta_tilde, -eta_j, gradient)  # line 9
    project_to_ball(theta_tilde, theta_hat, settings.radius)  # line 9
    for i in range(dim):
        theta_bar[i] += (theta_tilde[i] - theta_bar[i]) / j  # line 10
    deviation = math.sqrt(variance(settings, j, dim))  # line 11: A_j = deviation^2 I
    for index in range(int(settings.draws_per_block)):
        theta_ts = block_draw(state, dim, index)
        copy_to(theta_ts, theta_bar)
        add_normals(theta_ts, deviation, rng)  # line 12
    for i in range(dim):
        gradient[i] = 0.0
    state[POSITION] = 0.0


@jittable
def block_draw(state: Floats, dim: int, index: int) -> Floats:
    """Return one of the draws theta_TS of the current block."""
    start = draws_at(dim) + index * dim
    return state[start : start + dim]


@jittable
def first_rows_at(settings: Any, dim: int) -> int:
    """The offset of the recorded rows of the first block. Their rewards follow them."""
    return draws_at(dim) + int(settings.draws_per_block) * dim
