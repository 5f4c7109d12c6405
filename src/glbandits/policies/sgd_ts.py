"""SGD-TS: online stochastic gradient descent with Thompson sampling (Ding, Hsieh and Sharpnack, 2021)."""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from glbandits.maths.likelihood import fit
from glbandits.maths.links import LinkFunctions
from glbandits.maths.philox import add_normals, any_index, uniform
from glbandits.maths.vectors import add_scaled, best_arm, copy_to, dot, project_to_ball, uniform_mass
from glbandits.numba_support import jittable
from glbandits.policy import AnyLink, Bounds, Grid, NonNegative, PolicyInfo, Positive, Probability, StateLayout, derived
from glbandits.policy_bases.grids import EXPLORATIONS, FACTORS, STEPS
from glbandits.policy_bases.sgd_ts_theory import SgdTsConstants, variance
from glbandits.records import Floats, Generator

SCALARS = StateLayout()
POSITION, BLOCK = SCALARS.count("position"), SCALARS.count("block")
"""Rewards in the current block; closed blocks (j)."""
FITTED_RIDGE, CONVERGED = SCALARS.scalar("fitted_ridge"), SCALARS.scalar("converged")
"""The ridge that line 2 needed, and whether its solver converged."""
LAYOUT = StateLayout(SCALARS)
theta_hat_of, theta_tilde_of = LAYOUT.vector("theta_hat"), LAYOUT.vector("theta_tilde")
theta_bar_of, gradient_of = LAYOUT.vector("theta_bar"), LAYOUT.vector("gradient")
draws_at = LAYOUT.end()
"""Behind them: the draws theta_TS that are held for a block, and in the first block its tau rows and rewards."""


class SgdTs(SgdTsConstants):
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
        draw: "block" holds one draw for a block, as the paper does. "decision" draws again for each decision.
            "candidates" holds several draws for a block and plays a random one of them each time: the probability
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
    layout: ClassVar[StateLayout] = LAYOUT
    estimate: ClassVar[str] = "theta_bar"
    grid: ClassVar[Grid] = {
        "block_factor": FACTORS,
        "step": STEPS,
        "exploration_a1": EXPLORATIONS,
        "exploration_a2": EXPLORATIONS,
    }
    info: ClassVar[PolicyInfo] = PolicyInfo(
        choose="K d", learn="d", memory="d",
        guarantee="sqrt(T), if greedy contexts are diverse",
        use_when="d is large and contexts vary; the paper's algorithm",
        sparse="K n; n; f (first block: tau^3, once)",
    )  # fmt: skip

    link: AnyLink = "logistic"
    draw: Literal["block", "decision", "candidates"] = "block"
    candidates: Annotated[int, Bounds(at_least=1, at_most=1e6)] = 100
    floor: Probability = 0.0
    radius: Positive = 2.0
    ridge: NonNegative = 0.0

    @staticmethod
    def choose(state: Floats, settings: Any, arms: Floats, rng: Generator, link: LinkFunctions) -> int:
        """Lines 1 and 14: any arm in the first block, then the arm with the largest x'theta_TS."""
        K, dim = arms.shape
        if state[BLOCK] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        if settings.held == 0.0:
            theta_ts = theta_bar_of(state, dim).copy()
            add_normals(theta_ts, math.sqrt(variance(settings, state[BLOCK], dim)), rng)
            return best_arm(arms, theta_ts)
        which = 0 if settings.held == 1.0 else any_index(rng, int(settings.held))
        return best_arm(arms, held_draw(state, dim, which))

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Learn one reward; close the block when it is full."""
        dim = x.shape[0]
        if state[BLOCK] == 0.0:
            keep_row(state, settings, x, reward)
        else:
            # A term of line 8's gradient. theta_tilde is constant during a block, so no row need be kept.
            error = link.mean(dot(x, theta_tilde_of(state, dim))) - reward
            add_scaled(gradient_of(state, dim), error, x)
        state[POSITION] += 1.0
        if state[POSITION] < settings.tau:
            return state
        return close_block(state, settings, dim, rng, link)

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Uniform in the first block, then the shares of the held draws; not exact with a draw per decision."""
        K, dim = arms.shape
        uniform_mass(out)
        if state[BLOCK] == 0.0:
            return True
        for a in range(K):
            out[a] = settings.floor / K
        for which in range(int(settings.held)):
            out[best_arm(arms, held_draw(state, dim, which))] += (1.0 - settings.floor) / settings.held
        return bool(settings.held > 0.0)

    @derived
    def held(self, dim: int) -> int:
        """How many draws are held for a block."""
        return {"block": 1, "decision": 0, "candidates": self.candidates}[self.draw]

    def init(self, dim: int) -> Floats:
        """Zeros, with room for the rows of the first block."""
        return LAYOUT.allocate(dim, tail=self.held(dim) * dim + self.tau(dim) * (dim + 1))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        """The tail holds the rows of the first block until it is closed."""
        if state.ndim != 1 or state.size <= BLOCK or not state[POSITION] < self.tau(dim):
            return False
        rows = self.tau(dim) * (dim + 1) if state[BLOCK] == 0.0 else 0
        return LAYOUT.is_valid(state, dim, tail=self.held(dim) * dim + rows)


@jittable
def close_block(state: Floats, settings: Any, dim: int, rng: Generator, link: LinkFunctions) -> Floats:
    """Lines 2 to 4 after the first block, lines 7 to 12 after every block."""
    theta_hat, theta_tilde = theta_hat_of(state, dim), theta_tilde_of(state, dim)
    theta_bar, gradient = theta_bar_of(state, dim), gradient_of(state, dim)
    tau, rows, first = int(settings.tau), draws_at(dim) + int(settings.held) * dim, state[BLOCK] == 0.0
    if first:
        features, rewards = state[rows : rows + tau * dim].reshape(tau, dim), state[rows + tau * dim :]
        estimate = fit(features, rewards, np.ones(tau), settings.ridge, np.zeros(dim), link)  # line 2
        state[FITTED_RIDGE] = estimate.ridge
        state[CONVERGED] = 1.0 if estimate.converged else 0.0
        copy_to(theta_hat, estimate.theta)
        copy_to(theta_tilde, estimate.theta)  # line 4; block 1's gradient is zero there, so theta_tilde_1 too
    state[BLOCK] += 1.0  # line 7
    j = state[BLOCK]
    add_scaled(theta_tilde, -settings.eta / j, gradient)  # lines 8 and 9
    project_to_ball(theta_tilde, theta_hat, settings.radius)
    for i in range(dim):
        theta_bar[i] += (theta_tilde[i] - theta_bar[i]) / j  # line 10
        gradient[i] = 0.0
    deviation = math.sqrt(variance(settings, j, dim))  # line 11
    for which in range(int(settings.held)):
        theta_ts = held_draw(state, dim, which)
        copy_to(theta_ts, theta_bar)
        add_normals(theta_ts, deviation, rng)  # line 12
    state[POSITION] = 0.0
    return state[:rows].copy() if first else state


@jittable
def held_draw(state: Floats, dim: int, which: int) -> Floats:
    """One of the draws theta_TS that are held for a block."""
    start = draws_at(dim) + which * dim
    return state[start : start + dim]


@jittable
def keep_row(state: Floats, settings: Any, x: Floats, reward: float) -> None:
    """Line 1: record X_t and Y_t."""
    dim, row = x.shape[0], int(state[POSITION])
    rows = draws_at(dim) + int(settings.held) * dim
    copy_to(state[rows + row * dim : rows + (row + 1) * dim], x)
    state[rows + int(settings.tau) * dim + row] = reward
