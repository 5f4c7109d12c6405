import math

import numpy as np

from glbandits import Bandit
from glbandits.lab import Synthetic
from glbandits.maths.cholesky import log_determinant
from glbandits.maths.fitting.observation_history import history
from glbandits.policies import RsGlincb
from glbandits.policies.algorithms.rs_glincb import H_of, H_played_of, V_of, history_at, theta_of, theta_warm_of


def test_switches_only_when_the_determinant_has_doubled() -> None:
    bandit, rng, switches = Bandit(RsGlincb(), dim=3, seed=1), np.random.default_rng(0), 0
    theta, played = np.zeros(3), H_played_of(bandit.state, 3)
    for _ in range(800):
        arms = rng.uniform(-1, 1, (8, 3))
        arm = bandit.choose(arms)
        bandit.learn(arms[arm], float(rng.random() < 1 / (1 + math.exp(-arms[arm, 0]))))
        state = bandit.state
        new_theta, new_played = theta_of(state, 3), H_played_of(state, 3)
        now, then = log_determinant(H_of(state, 3)), log_determinant(new_played)
        assert now - then <= math.log(2) + 1e-9
        if not np.array_equal(new_played, played):
            switches += 1
            np.testing.assert_array_equal(new_played, H_of(state, 3))
        else:
            np.testing.assert_array_equal(new_theta, theta)
        theta, played = new_theta, new_played
    grown = log_determinant(played) / math.log(2)  # doublings since the initial identity matrix
    assert 8 <= switches <= grown + 1


def test_defaults_warm_up_with_features_of_norm_below_1() -> None:
    problem, bandit = Synthetic(dim=6, arms=100), Bandit(RsGlincb(), 6, seed=1)
    (block,) = problem.rounds(200, 1)
    assert (np.linalg.norm(block.arms, axis=2) < 1.0).all()
    warm_up = []
    for t in range(200):
        arm = bandit.choose(block.arms[t])
        before = V_of(bandit.state, 6)
        bandit.learn(block.arms[t, arm], problem.noise.reward(block.expected[t, arm], block.noise[t]))
        warm_up.append(not np.array_equal(V_of(bandit.state, 6), before))
    assert all(warm_up[:6])
    assert 6 < sum(warm_up) < 60
    assert sum(warm_up[100:]) < 5


def test_warm_up_set_contains_new_directions() -> None:
    bandit, rng = Bandit(RsGlincb(threshold=0.3), dim=2, seed=1), np.random.default_rng(0)
    V_now, warm = np.eye(2), 0
    for _ in range(60):
        arms = rng.uniform(-1, 1, (5, 2))
        norms = np.einsum("ai,ij,aj->a", arms, np.linalg.inv(V_now), arms)
        arm = bandit.choose(arms)
        if norms.max() >= 0.3:
            assert arm == int(np.argmax(norms))
            V_now, warm = V_now + np.outer(arms[arm], arms[arm]), warm + 1
        bandit.learn(arms[arm], float(rng.random() < 0.5))
    rows, R = history(bandit.state, history_at(2), 3), V_of(bandit.state, 2)
    np.testing.assert_allclose(R.T @ R, V_now, rtol=1e-12)
    assert 0 < warm == rows.counts[rows.features[:, 2] == 0.0].sum() < 60
    assert theta_warm_of(bandit.state, 2).any()
