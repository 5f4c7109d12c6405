"""SGD-TS: online stochastic gradient descent with Thompson sampling (Ding, Hsieh and Sharpnack, 2021)."""

import math
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from glbandits.compiled import borrowed, jittable
from glbandits.contract import Card, Grid, settle
from glbandits.errors import InvalidInput, look_up, number, whole
from glbandits.estimators.grids import EXPLORATIONS, FACTORS, STEPS
from glbandits.estimators.sgd_ts_theory import TheoryConstants, estimate_width_squared, path_width_squared
from glbandits.estimators.warm_up import warm_up_length
from glbandits.maths.likelihood import fit
from glbandits.maths.links import Link, LinkFunctions, find_link
from glbandits.maths.randomness import add_normals, any_index, uniform
from glbandits.maths.vectors import add_scaled, best_arm, copy_to, dot, project_to_ball
from glbandits.records import Floats, Generator


@dataclass(frozen=True, kw_only=True)
class SgdTs:
    """Algorithm 1 of the paper: one gradient step and one posterior draw for each block of tau rewards.

    1. Pull tau arms at random; theta_hat = maximum likelihood on them; theta_tilde_0 = theta_hat.
    2. After every block j of tau rewards, with g its gradient at theta_tilde_{j-1}:
       theta_tilde_j = projection of theta_tilde_{j-1} - (eta/j) g onto the ball round theta_hat,
       theta_bar_j = mean of theta_tilde_1 .. theta_tilde_j,
       theta_TS ~ N(theta_bar_j, A_j).
    3. Pull the arm with the largest x'theta_TS.

    Choosing costs O(K d), learning O(d), and after the first block the state holds a few vectors of length d.

    Args:
        link: mu, any strictly increasing link.
        block_factor: C in tau = floor(C max(log T, d)); without a horizon tau = floor(C d).
        block_length: tau itself, instead of block_factor.
        horizon: T, if it is known.
        step: eta in eta_j = eta / j.
        exploration_a1: a1 in A_j = (2 a1^2 + 2 a2^2) / j I.
        exploration_a2: a2, likewise; only a1^2 + a2^2 matters.
        theory: set tau, eta_j = 1/(alpha j) and A_j by the analysis, in place of the settings above.
        draw: "block" holds one draw for a block, as the paper does. "decision" draws anew for each decision.
            "candidates" holds several draws for a block and plays one of them, at random, each time: the chance
            of every arm is then known exactly and is neither 0 nor 1 while the draws disagree.
        candidates: how many draws "candidates" holds.
        floor: play a random arm with this probability, so that no arm has less than floor/K.
        radius: of the ball C round theta_hat.
        ridge: penalty of the maximum likelihood fit; 0 is the paper's.

    Deviations from the paper are listed in docs/theory/sgd-ts.md.

    >>> from glbandits import Bandit, SgdTs
    >>> bandit = Bandit(SgdTs(link="logistic", horizon=1000), dim=6, seed=7)
    >>> bandit.policy.tau(6)
    69
    """

    name: ClassVar[str] = "sgd-ts"
    keeps_history: ClassVar[bool] = False
    grid: ClassVar[Grid] = {
        "block_factor": FACTORS,
        "step": STEPS,
        "exploration_a1": EXPLORATIONS,
        "exploration_a2": EXPLORATIONS,
    }
    card: ClassVar[Card] = Card(
        choose="K d",
        learn="d",
        memory="d",
        guarantee="sqrt(T), if greedy contexts are diverse",
        use_when="d is large and contexts vary; the paper's algorithm",
        page="sgd-ts",
    )

    link: str | Link = "logistic"
    block_factor: float = 10.0
    block_length: int | None = None
    horizon: int | None = None
    step: float = 1.0
    exploration_a1: float = 0.01
    exploration_a2: float = 0.01
    theory: TheoryConstants | None = None
    draw: Literal["block", "decision", "candidates"] = "block"
    candidates: int = 100
    floor: float = 0.0
    radius: float = 2.0
    ridge: float = 0.0

    def __post_init__(self) -> None:
        find_link(self.link)
        settle(
            self,
            block_factor=number("block_factor", self.block_factor, above=0, at_most=1e9),
            step=number("step", self.step, above=0),
            exploration_a1=number("exploration_a1", self.exploration_a1, at_least=0),
            exploration_a2=number("exploration_a2", self.exploration_a2, at_least=0),
            candidates=whole("candidates", self.candidates, at_least=1, at_most=10**6),
            floor=number("floor", self.floor, at_least=0, at_most=1),
            radius=number("radius", self.radius, above=0),
            ridge=number("ridge", self.ridge, at_least=0),
        )
        if self.block_length is not None:
            settle(self, block_length=whole("block_length", self.block_length, at_least=1, at_most=10**9))
        if self.horizon is not None:
            settle(self, horizon=whole("horizon", self.horizon, at_least=1))
        if self.theory is not None:
            self._check_theory()
        self._held()

    def _check_theory(self) -> None:
        if not isinstance(self.theory, TheoryConstants):
            raise InvalidInput(f"theory must be TheoryConstants(...); got {self.theory!r}")
        replaced = ("block_factor", "block_length", "horizon", "step", "exploration_a1", "exploration_a2")
        for field in fields(self):
            if field.name in replaced and getattr(self, field.name) != field.default:
                raise InvalidInput(
                    f"theory sets the block length, the step and the exploration; got {field.name}="
                    f"{getattr(self, field.name)!r} beside it. Leave out one of the two"
                )

    def _held(self) -> int:
        """How many draws the rule holds for a block."""
        return look_up("draw", self.draw, {"block": 1, "decision": 0, "candidates": self.candidates})

    def tau(self, dim: int) -> int:
        """The block length for features of this dimension."""
        if self.theory is not None:
            return self.theory.block_length(dim)
        if self.block_length is not None:
            return self.block_length
        return warm_up_length(self.block_factor, self.horizon, dim)

    def numbers(self, dim: int) -> Floats:
        """The settings as `Numbers` names them."""
        tau = self.tau(dim)
        held = self._held()
        step, variance, mle_variance, gap_variance, log_T = self.step, 0.0, 0.0, 0.0, 0.0
        if self.theory is None:
            variance = 2 * self.exploration_a1**2 + 2 * self.exploration_a2**2
        else:
            alpha = self.theory.alpha(dim)
            step = 1 / alpha
            mle_variance = 2 * self.theory.c3 * (self.theory.noise / self.theory.c1) ** 2 / alpha
            gap_variance = 2 * (tau / alpha) ** 2
            log_T = math.log(self.theory.horizon)
        return np.array(
            Numbers(tau, step, self.radius, self.ridge, variance, mle_variance, gap_variance, log_T, held, self.floor),
            dtype=np.float64,
        )

    def init(self, dim: int) -> Floats:
        """Zeros, with room for the rows of the first block."""
        size = first_size(read(self.numbers(dim)), dim)
        if size > LARGEST_STATE:
            raise InvalidInput(
                f"the state would be {size} numbers, with a first block of tau = {self.tau(dim)} rows for dim = {dim}; "
                f"at most {LARGEST_STATE:g} fit. Set block_length to a smaller tau, or hold fewer candidates"
            )
        return np.zeros(size)

    def fits(self, state: Floats, dim: int) -> bool:
        """Of the first size until the first block is closed, and of the kept size from then on."""
        n = read(self.numbers(dim))
        if state.ndim != 1 or state.size < HEADER or not np.isfinite(state).all():
            return False
        position, block = float(state[POSITION]), float(state[BLOCK])
        size = first_size(n, dim) if block == 0.0 else kept_size(n, dim)
        counts = position.is_integer() and 0 <= position < n.tau and block.is_integer() and block >= 0
        return counts and state.size == size

    @staticmethod
    @jittable
    def choose(state: Floats, settings: Floats, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Line 1 and line 14: any arm in the first block, then the arm that the draw likes best."""
        n, state = read(settings), borrowed(state)
        K, dim = arms.shape
        if state[BLOCK] == 0.0 or (n.floor > 0.0 and uniform(rng) < n.floor):
            return any_index(rng, K)
        if n.held == 0.0:
            theta_ts = vector(state, dim, THETA_BAR).copy()
            add_normals(theta_ts, math.sqrt(variance(n, state[BLOCK], dim)), rng)
            return best_arm(arms, theta_ts)
        which = 0 if n.held == 1.0 else any_index(rng, int(n.held))
        return best_arm(arms, vector(state, dim, THETA_TS + which))

    @staticmethod
    @jittable
    def learn(state: Floats, settings: Floats, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Take in one reward; close the block when it is full."""
        n = read(settings)
        dim = x.shape[0]
        if state[BLOCK] == 0.0:
            keep_row(state, n, x, reward)
        else:
            # A term of line 8's gradient. theta_tilde stays put during a block, so no row need be kept.
            here = borrowed(state)
            error = link.mean(dot(x, vector(here, dim, THETA_TILDE))) - reward
            add_scaled(vector(here, dim, GRADIENT), error, x)
        state[POSITION] += 1.0
        if state[POSITION] < n.tau:
            return state
        return close_block(state, n, dim, rng, link)

    @staticmethod
    @jittable
    def probabilities(state: Floats, settings: Floats, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform in the first block, then the shares of the held draws; not exact with a draw per decision."""
        n = read(settings)
        K, dim = arms.shape
        if state[BLOCK] == 0.0:
            out[:] = 1.0 / K
            return True
        out[:] = n.floor / K
        for which in range(int(n.held)):
            out[best_arm(arms, vector(state, dim, THETA_TS + which))] += (1.0 - n.floor) / n.held
        return n.held > 0.0


@jittable
def close_block(state: Floats, n: "Numbers", dim: int, rng: Generator, link: LinkFunctions) -> Floats:
    """Lines 2 to 4 after the first block, lines 7 to 12 after every block."""
    theta_hat, theta_tilde = vector(state, dim, THETA_HAT), vector(state, dim, THETA_TILDE)
    theta_bar, gradient = vector(state, dim, THETA_BAR), vector(state, dim, GRADIENT)
    first = state[BLOCK] == 0.0
    if first:
        tau, rows = int(n.tau), kept_size(n, dim)
        features, rewards = state[rows : rows + tau * dim].reshape(tau, dim), state[rows + tau * dim :]
        estimate = fit(features, rewards, np.ones(tau), n.ridge, np.zeros(dim), link)  # line 2
        state[FITTED_RIDGE] = estimate.ridge
        state[CONVERGED] = 1.0 if estimate.converged else 0.0
        copy_to(theta_hat, estimate.theta)
        copy_to(theta_tilde, estimate.theta)  # line 4; block 1's gradient is zero there, so theta_tilde_1 too
    state[BLOCK] += 1.0  # line 7
    j = state[BLOCK]
    add_scaled(theta_tilde, -n.step / j, gradient)  # lines 8 and 9
    project_to_ball(theta_tilde, theta_hat, n.radius)
    for i in range(dim):
        theta_bar[i] += (theta_tilde[i] - theta_bar[i]) / j  # line 10
    deviation = math.sqrt(variance(n, j, dim))  # line 11
    for which in range(int(n.held)):
        theta_ts = vector(state, dim, THETA_TS + which)
        copy_to(theta_ts, theta_bar)
        add_normals(theta_ts, deviation, rng)  # line 12
    gradient[:] = 0.0
    state[POSITION] = 0.0
    return state[: kept_size(n, dim)].copy() if first else state


@jittable
def variance(n: "Numbers", j: float, dim: int) -> float:
    """The number on the diagonal of A_j, in either parametrisation (equations 5 to 7, or Section 6)."""
    mle = n.mle_variance * estimate_width_squared(j, n.tau, dim, n.log_T)
    gap = n.gap_variance * path_width_squared(j)
    return (n.variance + mle + gap) / j


# The state: four numbers, the vectors below one after another, and in the first block the rows it keeps.

POSITION, BLOCK, FITTED_RIDGE, CONVERGED, HEADER = 0, 1, 2, 3, 4
"""Rewards in the current block; closed blocks (j); the ridge that line 2 needed, and whether its solver converged."""

THETA_HAT, THETA_TILDE, THETA_BAR, GRADIENT, THETA_TS = 0, 1, 2, 3, 4
"""The vectors; from THETA_TS on there are as many as draws are held."""

LARGEST_STATE = 5e8
"""More numbers than this (4 GB) are a mistake in the settings."""


@jittable
def vector(state: Floats, dim: int, which: int) -> Floats:
    """One of the vectors: a slice, so writing to it writes to the state."""
    return state[HEADER + which * dim : HEADER + (which + 1) * dim]


@jittable
def kept_size(n: "Numbers", dim: int) -> int:
    """The length of the state after the first block."""
    return HEADER + (THETA_TS + int(n.held)) * dim


def first_size(n: "Numbers", dim: int) -> int:
    """The length of the state in the first block."""
    return kept_size(n, dim) + int(n.tau) * (dim + 1)


@jittable
def keep_row(state: Floats, n: "Numbers", x: Floats, reward: float) -> None:
    """Line 1: record X_t and Y_t."""
    dim = x.shape[0]
    row, rows = int(state[POSITION]), kept_size(n, dim)
    copy_to(state[rows + row * dim : rows + (row + 1) * dim], x)
    state[rows + int(n.tau) * dim + row] = reward


class Numbers(NamedTuple):
    """The settings in compiled code."""

    tau: float
    step: float
    radius: float
    ridge: float
    variance: float
    mle_variance: float
    gap_variance: float
    log_T: float
    held: float
    floor: float


@jittable
def read(settings: Floats) -> Numbers:
    """Name the settings."""
    return Numbers(
        settings[0], settings[1], settings[2], settings[3], settings[4],
        settings[5], settings[6], settings[7], settings[8], settings[9],
    )  # fmt: skip
