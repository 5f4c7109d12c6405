import math

import numpy as np
import pytest

from glbandits import Bandit, Ecolog, InvalidInput, OnlineLaplace
from glbandits.maths.cholesky import solve_factorised
from glbandits.maths.fitting.observation_history import history
from glbandits.maths.proximal import squared_distance
from glbandits.policies.algorithms.ecolog import (
    LEVEL,
    LOSSES,
    Q_of,
    V_of,
    W_of,
    centre_of,
    history_at,
    theta_of,
    theta_warm_of,
)


def test_step_one_in_a_wide_ball_equals_online_laplace() -> None:
    ecolog, laplace = Bandit(Ecolog(bound=100.0), 3, 1), Bandit(OnlineLaplace(rule="ucb", exploration=3.0), 3, 1)
    rng = np.random.default_rng(0)
    for _ in range(80):
        arms = rng.uniform(-0.6, 0.6, (6, 3))
        arm = ecolog.choose(arms)
        assert arm == laplace.choose(arms)
        reward = float(rng.random() < 0.5)
        ecolog.learn(arms[arm], reward)
        laplace.learn(arms[arm], reward)
    np.testing.assert_allclose(theta_of(ecolog.state, 3), laplace.state[:3], atol=1e-12)
    assert history(ecolog.state, history_at(3), 3).counts.size == 0  # no reward went to the warm-up set


def test_warm_up_rewards_shrink_the_confidence_set() -> None:
    policy = Ecolog(step=None, bound=4.0, prior_precision=0.01, failure=0.1)
    bandit, rng = Bandit(policy, dim=2, seed=1), np.random.default_rng(3)
    theta_star, warm_up_rows = np.array([1.2, -0.5]), 0
    for _ in range(400):
        x = rng.uniform(-0.7, 0.7, 2)
        before = bandit.state
        bandit.learn(x, float(rng.random() < 1 / (1 + math.exp(-x @ theta_star))))
        state = bandit.state
        rows = history(state, history_at(2), 2).counts.sum()
        if rows > warm_up_rows:  # a reward of the warm-up set must change nothing else
            np.testing.assert_array_equal(theta_of(state, 2), theta_of(before, 2))
            np.testing.assert_array_equal(W_of(state, 2), W_of(before, 2))
        warm_up_rows = rows
        theta, centre, set_matrix = theta_of(state, 2), centre_of(state, 2), Q_of(state, 2)
        assert np.linalg.norm(theta) <= math.sqrt(2) * 4.0 * (1 + 1e-9)
        assert squared_distance(theta_star, centre, set_matrix) <= state[LEVEL]
    assert 3 <= warm_up_rows <= 200
    # The definition of the set: ||theta||^2/S^2 + ||theta - theta_warm||^2_V / r^2 <= 2.
    R, warm, least = V_of(state, 2), theta_warm_of(state, 2), math.exp(-4) / (1 + math.exp(-4)) ** 2
    width = 0.5 * math.sqrt(np.linalg.slogdet(R.T @ R)[1] - 2 * math.log(0.01) + 2 * math.log(1 / 0.05))
    r = 2 / least * (width + least * 0.1 * 4.0)
    for point in rng.normal(size=(5, 2)):
        moved = R @ (point - warm)
        direct = point @ point / 16 + moved @ moved / r**2 - 2
        assert squared_distance(point, centre, set_matrix) - state[LEVEL] == pytest.approx(direct, abs=1e-9)


def test_one_step_matches_a_manual_computation() -> None:
    # d = 1, theta = 0, W = 4, eta = 1/2 (weight 2): z minimises 4 z^2 + log(1 + e^z) - z, that is 8z + sigma(z) = 1.
    bandit = Bandit(Ecolog(step=0.5, prior_precision=4.0), dim=1, seed=1)
    bandit.learn([1.0], 1.0)
    z = theta_of(bandit.state, 1)[0]
    assert 8 * z + 1 / (1 + math.exp(-z)) == pytest.approx(1.0, abs=1e-12)
    slope = math.exp(-z) / (1 + math.exp(-z)) ** 2
    assert W_of(bandit.state, 1)[0, 0] ** 2 == pytest.approx(4 + slope)
    # theta_bar minimises 4 z^2 + 2 log(1 + e^z) - z, which is z = 0: the loss there is log 2.
    gained = math.log(2) - (math.log1p(math.exp(z)) - z)
    assert bandit.state[LOSSES] == pytest.approx(2 * 0.5 * gained - 4 * z * z)
    b = np.array([1.0])
    solve_factorised(W_of(bandit.state, 1), b)
    assert b[0] == pytest.approx(1 / (4 + slope))


def test_links_other_than_logistic_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="supports only the logistic link"):
        Ecolog(link="identity")
