"""DOMD-GLB: the discounted matrix, and a theta that changes."""

import numpy as np
import pytest

from glbandits import Bandit
from glbandits.common.arrays import Floats
from glbandits.lab import Synthetic, simulate
from glbandits.policies import DomdGlb, GlbOmd
from glbandits.policies.shared.glb_omd_policy import factor_of


def precision(bandit: Bandit) -> Floats:
    R = np.triu(factor_of(bandit.state, bandit.dim))
    return R.T @ R


def theta(bandit: Bandit) -> Floats:
    coefficients = bandit.coefficients()
    assert coefficients is not None
    return coefficients.theta


def test_precision_is_discounted_towards_the_prior() -> None:
    # With the identity link, the slope is 1. The half-life is 16, so H is discounted before rewards 1, 3, 5 ...
    X, gamma, H = np.random.default_rng(0).normal(size=(21, 3)), 2.0 ** (-2.0 / 16.0), 2.0 * np.eye(3)
    bandit = Bandit(DomdGlb(link="identity", half_life=16.0, prior_precision=2.0), dim=3, seed=1)
    bandit.learn_batch(X, np.zeros(21))
    for t, x in enumerate(X):
        if t % 2 == 0:
            H = gamma * H + (1.0 - gamma) * 2.0 * np.eye(3)
        H += np.outer(x, x)
    np.testing.assert_allclose(precision(bandit), H)


def test_theta_stays_while_its_precision_falls_to_the_prior() -> None:
    bandit = Bandit(DomdGlb(half_life=4.0), dim=2, seed=1)
    bandit.learn_batch([[1.0, 0.0]] * 50, [1.0] * 50)
    learned = theta(bandit)[0]
    bandit.learn_batch([[0.0, 1.0]] * 400, [0.0, 1.0] * 200)
    assert precision(bandit)[0, 0] == pytest.approx(1.0)
    assert theta(bandit)[0] == learned > 1.0


def test_estimate_follows_a_change_of_sign() -> None:
    rng, estimates = np.random.default_rng(1), {}
    X = rng.normal(size=(3000, 3))
    theta_star = np.where(np.arange(3000)[:, np.newaxis] < 2000, 1.0, -1.0) * np.array([1.0, -1.0, 0.5])
    y = (rng.random(3000) < 1.0 / (1.0 + np.exp(-(X * theta_star).sum(axis=1)))).astype(float)
    for policy in (GlbOmd(), DomdGlb()):
        bandit = Bandit(policy, dim=3, seed=1)
        bandit.learn_batch(X, y)
        estimates[policy.name] = np.linalg.norm(theta(bandit) - theta_star[-1])
    assert estimates["domd-glb"] < 0.7 < 1.0 < estimates["glb-omd"]


def test_without_forgetting_it_is_glb_omd() -> None:
    runs = [
        simulate(policy, Synthetic(dim=3, arms=8), 150, [1, 2], compiled=False, jobs=1)
        for policy in (DomdGlb(half_life=1e9), GlbOmd(exploration=2.0))
    ]
    np.testing.assert_array_equal(runs[0].choices, runs[1].choices)
