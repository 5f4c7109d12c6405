"""Policies that must make the same choices as another policy in special cases."""

from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, EpsilonGreedy, LinUcb, Policy
from glbandits.lab import Synthetic, simulate
from glbandits.policies import (
    Evill,
    GlbOmd,
    GlmFp,
    GlmFpl,
    GlmTsl,
    GlmUcb,
    Greedy,
    LaplaceTs,
    LinTs,
    LinUcbDisjoint,
    OfuglbE,
    OnlineLaplace,
    UcbGlm,
)

LINEAR = Synthetic(dim=3, arms=8, link="identity")


def choices(policy: Policy, problem: Synthetic, horizon: int = 150) -> Any:
    return simulate(policy, problem, horizon, [1, 2], compiled=False, jobs=1).choices


@pytest.mark.parametrize(
    ("general", "linear"),
    [
        (OnlineLaplace(link="identity", rule="ucb", exploration=0.4), LinUcb(exploration=0.4)),
        (OnlineLaplace(link="identity", rule="ts", exploration=0.4), LinTs(exploration=0.4)),
        (UcbGlm(link="identity", ridge=1.0, prior_precision=1.0, warm_up=0, exploration=0.4), LinUcb(exploration=0.4)),
        (GlmTsl(link="identity", ridge=1.0, prior_precision=1.0, warm_up=0, exploration=0.4), LinTs(exploration=0.4)),
        (GlmUcb(link="identity", ridge=1.0, warm_up=0, exploration=0.4, bound=100.0), LinUcb(exploration=0.4)),
        (OfuglbE(link="identity", ridge=1.0, exploration=0.4, bound=100.0), LinUcb(exploration=0.4)),
        (GlbOmd(link="identity", exploration=0.4, bound=100.0), LinUcb(exploration=0.4)),
        (LinUcbDisjoint(context_dim=3, exploration=0.4), LinUcb(exploration=0.4)),
        (GlmFp(link="identity", exploration=0.4), OnlineLaplace(link="identity", exploration=0.4)),
    ],
    ids=lambda policy: policy.name,
)
def test_identity_link_gives_the_linear_policy(general: Policy, linear: Policy) -> None:
    np.testing.assert_array_equal(choices(general, LINEAR), choices(linear, LINEAR))


@pytest.mark.parametrize(
    "explorer",
    [
        UcbGlm(exploration=0.0, warm_up=12, ridge=1.0),
        GlmUcb(exploration=0.0, warm_up=12, ridge=1.0),
        GlmTsl(exploration=0.0, warm_up=12, ridge=1.0),
        GlmFp(exploration=0.0, warm_up=12, ridge=1.0),
        OfuglbE(exploration=0.0, warm_up=12, ridge=1.0),
        EpsilonGreedy(exploration=0.0, warm_up=12, ridge=1.0),
        GlmFpl(exploration=0.0, warm_up=12),
        Evill(exploration=0.0, warm_up=12),
    ],
    ids=lambda policy: policy.name,
)
def test_zero_exploration_equals_greedy(explorer: Policy) -> None:
    # Their warm-ups consume different amounts of random numbers, so here all learn the same rewards.
    bandits = [Bandit(explorer, dim=3, seed=1), Bandit(Greedy(warm_up=12, ridge=1.0), dim=3, seed=1)]
    rng = np.random.default_rng(4)
    for t in range(60):
        x, reward = rng.uniform(-0.5, 0.5, 3), float(rng.random() < 0.5)
        for bandit in bandits:
            bandit.learn(x, reward)
        arms = rng.uniform(-0.5, 0.5, (9, 3))
        if t >= 11:
            assert bandits[0].choose(arms) == bandits[1].choose(arms)


@pytest.mark.parametrize("rule", ["ucb", "ts", "fp"])
def test_online_laplace_without_exploration_uses_its_mean(rule: Any) -> None:
    bandit, rng = Bandit(OnlineLaplace(rule=rule, exploration=0.0), dim=3, seed=1), np.random.default_rng(4)
    for _ in range(40):
        bandit.learn(rng.uniform(-0.5, 0.5, 3), float(rng.random() < 0.5))
        arms = rng.uniform(-0.5, 0.5, (9, 3))
        assert bandit.choose(arms) == int(np.argmax(arms @ bandit.state[:3]))


def test_diagonal_posterior_is_exact_for_one_hot_features() -> None:
    full, diagonal = Bandit(OnlineLaplace(), dim=3, seed=1), Bandit(LaplaceTs(), dim=3, seed=1)
    rng = np.random.default_rng(4)
    for _ in range(60):
        x, reward = rng.uniform(0.2, 2.0) * np.eye(3)[rng.integers(3)], float(rng.random() < 0.5)
        full.learn(x, reward)
        diagonal.learn(x, reward)
    np.testing.assert_allclose(full.state[:3], diagonal.state[:3], rtol=1e-10)
    np.testing.assert_allclose(np.square(np.diag(full.state[3:].reshape(3, 3))), diagonal.state[3:], rtol=1e-10)


def test_linear_policies_equal_batch_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 4)), rng.normal(size=500)
    bandit = Bandit(LinUcb(prior_precision=2.0), dim=4, seed=1)
    bandit.learn_batch(X, y)
    V = 2.0 * np.eye(4) + X.T @ X
    R = bandit.state[4:].reshape(4, 4)
    np.testing.assert_allclose(bandit.state[:4], np.linalg.solve(V, X.T @ y), rtol=1e-10)
    np.testing.assert_allclose(R.T @ R, V, rtol=1e-12)


@pytest.mark.statistics
def test_online_laplace_is_close_to_the_batch_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 3))
    y = (rng.random(4000) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(float)
    online, batch = Bandit(OnlineLaplace(), dim=3, seed=1), Bandit(UcbGlm(ridge=1.0, warm_up=4000), dim=3, seed=1)
    online.learn_batch(X, y)
    batch.learn_batch(X, y)
    np.testing.assert_allclose(online.state[:3], batch.state[1:4], atol=0.01)


@pytest.mark.slow
def test_million_rewards_in_fifty_dimensions_do_not_drift() -> None:
    rng, dim = np.random.default_rng(0), 50
    bandit = Bandit(LinUcb(), dim=dim, seed=1)
    V, b = np.eye(dim), np.zeros(dim)
    for _ in range(20):
        X = rng.normal(size=(50_000, dim)) * np.geomspace(1.0, 1e-3, dim)
        y = X @ np.ones(dim) + rng.normal(size=len(X))
        bandit.learn_batch(X, y)
        V, b = V + X.T @ X, b + X.T @ y
    np.testing.assert_allclose(bandit.state[:dim], np.linalg.solve(V, b), rtol=1e-8)
