from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, LinUcb
from glbandits.policies import LinUcbDisjoint, disjoint_arms


def test_equals_lin_ucb_on_disjoint_features() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4, 3))
    disjoint, shared = (
        Bandit(LinUcbDisjoint(context_dim=3, exploration=0.5), dim=12, seed=1),
        Bandit(LinUcb(exploration=0.5), 12, 1),
    )
    pulled = set()
    for _ in range(300):
        contexts = rng.normal(size=(4, 3))
        arms = disjoint_arms(contexts)
        arm = disjoint.choose(arms)
        assert arm == shared.choose(arms)
        pulled.add(arm)
        reward = float(truth[arm] @ contexts[arm] + rng.normal())
        disjoint.learn(arms[arm], reward)
        shared.learn(arms[arm], reward)
    np.testing.assert_allclose(disjoint.state[:12], shared.state[:12], atol=1e-12)
    assert pulled == {0, 1, 2, 3}


def test_each_block_is_the_ridge_regression_of_its_arm() -> None:
    rng = np.random.default_rng(1)
    X, y, arm = rng.normal(size=(50, 2)), rng.normal(size=50), rng.integers(0, 3, 50)
    bandit = Bandit(LinUcbDisjoint(context_dim=2, prior_precision=0.5), dim=6, seed=1)
    for x, reward, a in zip(X, y, arm, strict=True):
        bandit.learn(disjoint_arms(np.tile(x, (3, 1)))[a], reward)
    for a in range(3):
        mine = arm == a
        V = 0.5 * np.eye(2) + X[mine].T @ X[mine]
        np.testing.assert_allclose(bandit.state[2 * a : 2 * a + 2], np.linalg.solve(V, X[mine].T @ y[mine]), atol=1e-12)


def test_features_that_are_not_blocks_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="must be a multiple of context_dim=3"):
        Bandit(LinUcbDisjoint(context_dim=3), dim=7)
    with pytest.raises(InvalidInput, match=r"contexts must have shape \(K, d\)"):
        disjoint_arms([1.0, 2.0, 3.0])


@pytest.mark.parametrize("contexts", [[[1.0, 2.0], [3.0]], [["a"]], [[1.0, np.nan]], [[np.inf]], [[1e60]]])
def test_contexts_that_are_not_finite_numbers_are_rejected(contexts: Any) -> None:
    with pytest.raises(InvalidInput, match="contexts must be finite numbers"):
        disjoint_arms(contexts)
