"""SGD-TS: online SGD with Thompson sampling (Ding, Hsieh and Sharpnack, 2021)."""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from glbandits.maths.fitting.likelihood import fit
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
"""The number of rewards in the current block, and j, the number of complete blocks."""
FITTED_RIDGE, CONVERGED = SCALARS.scalar("fitted_ridge"), SCALARS.scalar("converged")
"""The ridge with which line 2 was solved, and whether its solver converged."""
LAYOUT = StateLayout(SCALARS)
theta_hat_of, theta_tilde_of = LAYOUT.vector("theta_hat"), LAYOUT.vector("theta_tilde")
theta_bar_of, gradient_of = LAYOUT.vector("theta_bar"), LAYOUT.vector("gradient")
draws_at = LAYOUT.end()
"""The offset of the draws theta_TS of the current block. In the first block, its tau rows and rewards follow them."""


class SgdTs(SgdTsConstants):
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
        theory: compute tau, eta_j = 1/(alpha j) and A_j from the theory, instead of from the settings above.
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
        """Lines 1 and 14: a random arm in the first block, then the largest x'theta_TS."""
        K, dim = arms.shape
        if state[BLOCK] == 0.0 or (settings.floor > 0.0 and uniform(rng) < settings.floor):
            return any_index(rng, K)
        if settings.draws_per_block == 0.0:  # draw="decision"
            theta_ts = theta_bar_of(state, dim).copy()
            add_normals(theta_ts, math.sqrt(variance(settings, state[BLOCK], dim)), rng)
            return best_arm(arms, theta_ts)
        index = 0 if settings.draws_per_block == 1.0 else any_index(rng, int(settings.draws_per_block))
        return best_arm(arms, block_draw(state, dim, index))

    @staticmethod
    def learn(state: Floats, settings: Any, x: Floats, reward: float, rng: Generator, link: LinkFunctions) -> Floats:
        """Learn one reward, and complete the block if this is its last reward."""
        dim = x.shape[0]
        if state[BLOCK] == 0.0:
            record_row(state, settings, x, reward)
        else:
            # Line 8: add a term to the gradient. theta_tilde is constant during a block, so rows need not be stored.
            error = link.mean(dot(x, theta_tilde_of(state, dim))) - reward
            add_scaled(gradient_of(state, dim), error, x)
        state[POSITION] += 1.0
        if state[POSITION] < settings.tau:
            return state
        return complete_block(state, settings, dim, rng, link)

    @staticmethod
    def probabilities(state: Floats, settings: Any, arms: Floats, link: LinkFunctions, out: Floats) -> bool:
        """Write the share of the block's draws under which each arm is the best.

        Returns False for draw="decision", which has no exact form.
        """
        K, dim = arms.shape
        uniform_mass(out)
        if state[BLOCK] == 0.0:
            return True
        for a in range(K):
            out[a] = settings.floor / K
        for index in range(int(settings.draws_per_block)):
            out[best_arm(arms, block_draw(state, dim, index))] += (1.0 - settings.floor) / settings.draws_per_block
        return bool(settings.draws_per_block > 0.0)

    @derived
    def draws_per_block(self, dim: int) -> int:
        """The number of draws theta_TS that are made at the start of a block."""
        return {"block": 1, "decision": 0, "candidates": self.candidates}[self.draw]

    def init(self, dim: int) -> Floats:
        """Return zeros, with room for the rows of the first block."""
        return LAYOUT.allocate(dim, tail=self.draws_per_block(dim) * dim + self.tau(dim) * (dim + 1))

    def is_valid_state(self, state: Floats, dim: int) -> bool:
        if state.ndim != 1 or state.size <= BLOCK or not state[POSITION] < self.tau(dim):
            return False
        recorded = self.tau(dim) * (dim + 1) if state[BLOCK] == 0.0 else 0  # rows and rewards of the first block
        return LAYOUT.is_valid(state, dim, tail=self.draws_per_block(dim) * dim + recorded)


@jittable
def complete_block(state: Floats, settings: Any, dim: int, rng: Generator, link: LinkFunctions) -> Floats:
    """Run lines 2 to 4 after the first block, and lines 7 to 12 after every block."""
    theta_hat, theta_tilde = theta_hat_of(state, dim), theta_tilde_of(state, dim)
    theta_bar, gradient = theta_bar_of(state, dim), gradient_of(state, dim)
    tau, rows_at, first = int(settings.tau), draws_at(dim) + int(settings.draws_per_block) * dim, state[BLOCK] == 0.0
    if first:
        features, rewards = state[rows_at : rows_at + tau * dim].reshape(tau, dim), state[rows_at + tau * dim :]
        estimate = fit(features, rewards, np.ones(tau), settings.ridge, np.zeros(dim), link)  # line 2
        state[FITTED_RIDGE] = estimate.ridge
        state[CONVERGED] = 1.0 if estimate.converged else 0.0
        copy_to(theta_hat, estimate.theta)
        copy_to(theta_tilde, estimate.theta)  # line 4; the gradient of block 1 is zero there
    state[BLOCK] += 1.0  # line 7
    j = state[BLOCK]
    add_scaled(theta_tilde, -settings.eta / j, gradient)  # line 9; `learn` has summed the gradient of line 8
    project_to_ball(theta_tilde, theta_hat, settings.radius)  # line 9; the ball is C of line 3
    for i in range(dim):
        theta_bar[i] += (theta_tilde[i] - theta_bar[i]) / j  # line 10
        gradient[i] = 0.0
    deviation = math.sqrt(variance(settings, j, dim))  # line 11
    for index in range(int(settings.draws_per_block)):
        theta_ts = block_draw(state, dim, index)
        copy_to(theta_ts, theta_bar)
        add_normals(theta_ts, deviation, rng)  # line 12
    state[POSITION] = 0.0
    return state[:rows_at].copy() if first else state  # the rows of the first block are no longer needed


@jittable
def block_draw(state: Floats, dim: int, index: int) -> Floats:
    """Return one of the draws theta_TS of the current block."""
    start = draws_at(dim) + index * dim
    return state[start : start + dim]


@jittable
def record_row(state: Floats, settings: Any, x: Floats, reward: float) -> None:
    """Line 1: record X_t and Y_t."""
    dim, row = x.shape[0], int(state[POSITION])
    rows_at = draws_at(dim) + int(settings.draws_per_block) * dim
    copy_to(state[rows_at + row * dim : rows_at + (row + 1) * dim], x)
    state[rows_at + int(settings.tau) * dim + row] = reward
