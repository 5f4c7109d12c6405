import math

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic, simulate
from glbandits.lab.simulation.play_recipes import play_entry
from glbandits.maths.links import find_link
from glbandits.maths.philox import generator
from glbandits.policies import Gloc, GlocTs
from glbandits.policies.shared.gloc_policy import factor_of, theta_hat_of, theta_of


def test_two_rounds_match_a_manual_computation() -> None:
    # Identity link, d = 1, eta = 1/2, S = 1, lambda = 1.
    bandit = Bandit(Gloc(link="identity", step=0.5, exploration=0.0), dim=1, seed=1)
    # z = 0, g = 0 - 1 = -1; A = 1 + 4 = 5, A^-1 x = 0.4; theta = 0 + 0.5 * 0.4 = 0.2; theta_hat = 0.
    bandit.learn([2.0], 1.0)
    state = bandit.state
    np.testing.assert_allclose([theta_of(state, 1)[0], theta_hat_of(state, 1)[0]], [0.2, 0.0], atol=1e-15)
    # x = 1: z = 0.2, g = 0.2 - 8 = -7.8; A = 6; theta = 0.2 + 0.5 * 7.8 / 6 = 0.85; theta_hat = 0.2 / 6.
    bandit.learn([1.0], 8.0)
    state = bandit.state
    np.testing.assert_allclose([theta_of(state, 1)[0], theta_hat_of(state, 1)[0]], [0.85, 0.2 / 6], atol=1e-14)
    # x = 1, y = 100: the step leaves the ball, and the projection gives theta = S = 1.
    bandit.learn([1.0], 100.0)
    assert theta_of(bandit.state, 1)[0] == pytest.approx(1.0, rel=1e-12)


def test_estimates_match_direct_solutions() -> None:
    step = (1 + math.exp(-2)) ** 2 / math.exp(-2)  # the theory's, for bound=2
    bandit, rng = Bandit(Gloc(step=step, bound=2.0, prior_precision=0.5), dim=2, seed=1), np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (40, 2)), rng.integers(0, 2, 40).astype(float)
    theta, A = np.zeros(2), 0.5 * np.eye(2)
    z: list[float] = []
    for i in range(40):
        z.append(float(X[i] @ theta))
        A += np.outer(X[i], X[i])
        bandit.learn(X[i], y[i])
        theta = theta_of(bandit.state, 2)
        assert np.linalg.norm(theta) <= 2.0 * (1 + 1e-12)
    np.testing.assert_allclose(theta_hat_of(bandit.state, 2), np.linalg.solve(A, X.T @ z), atol=1e-12)
    np.testing.assert_allclose(factor_of(bandit.state, 2).T @ factor_of(bandit.state, 2), A, rtol=1e-12)


def test_invalid_settings_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="bound must be a finite number above 0"):
        Gloc(bound=0)
    with pytest.raises(InvalidInput, match="exploration must be a finite number at least"):
        Gloc(exploration=-1)


@pytest.mark.safety
@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("kind", [Gloc, GlocTs])
def test_compiled_runs_with_projections_equal_plain_runs(kind: type[Gloc] | type[GlocTs]) -> None:
    policy = kind(step=10.0, bound=0.3)
    problem = Synthetic(dim=7, arms=5, theta_norm=3.0)
    compiled, plain = (simulate(policy, problem, 60, 3, compiled=flag, jobs=1) for flag in (True, False))
    np.testing.assert_array_equal(compiled.choices, plain.choices)
    np.testing.assert_array_equal(_states(policy, problem, True), _states(policy, problem, False))


def _states(policy: Gloc | GlocTs, problem: Synthetic, compiled: bool) -> Floats:
    """Return the state after 60 rounds."""
    block = next(problem.rounds(60, 1))
    play = play_entry(policy.implementation(7), find_link(policy.link), problem.noise, compiled)
    room = np.empty(60, dtype=np.int64), np.empty(60)
    start = policy.init(7), policy.packed_settings(7), generator(1)
    arms = block.rows, block.starts, block.counts, block.expected, block.payoffs, block.best()
    return play(*start, *arms, problem.noise.number, block.noise, 0.0, *room)
