"""Policies that perturb their estimate: theta must have the distribution that their papers state."""

import math
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput
from glbandits.common.arrays import Floats
from glbandits.policies import Evill, GlmFpl, Greedy, LmcTs, PgTs

RNG = np.random.default_rng(2)
X: Floats = RNG.uniform(-1, 1, (30, 2))
Y: Floats = X @ [0.5, -1.0] + 0.3 * RNG.normal(size=30)
V = np.eye(2) + X.T @ X
THETA_HAT: Floats = np.linalg.solve(V, X.T @ Y).astype(np.float64)
V_INVERSE: Floats = np.linalg.inv(V).astype(np.float64)
DRAWS = 4000


def draws(policy: Any, count: int = DRAWS) -> Floats:
    """Return independent draws of theta, each computed from all rewards."""
    bandit = Bandit(policy, dim=2, seed=1)
    bandit.learn_batch(X[:-1], Y[:-1])
    state, thetas = bandit.state, np.empty((count, 2))
    for i in range(count):
        bandit._state = state.copy()
        bandit.learn(X[-1], Y[-1])
        thetas[i] = bandit.state[1:3]
    return thetas


def assert_normal(thetas: Floats, mean: Floats, covariance: Floats, independent: float = 1.0) -> None:
    """Check the mean to five standard errors, and the covariance to five times sqrt(2/n), relatively."""
    spread, n = np.sqrt(np.diag(covariance)), len(thetas) * independent
    assert (np.abs(thetas.mean(axis=0) - mean) < 5 * spread / math.sqrt(n)).all()
    scale = np.outer(spread, spread)
    np.testing.assert_allclose(np.cov(thetas.T) / scale, covariance / scale, atol=5 * math.sqrt(2 / n))


@pytest.mark.statistics
def test_evill_draws_from_the_posterior_of_a_linear_model() -> None:
    assert_normal(draws(Evill(link="identity", exploration=0.4)), THETA_HAT, 0.16 * V_INVERSE)


@pytest.mark.statistics
def test_glm_fpl_draws_the_ridge_estimate_of_noisy_rewards() -> None:
    smoother = np.linalg.solve(V, X.T)
    assert_normal(draws(GlmFpl(link="identity", exploration=0.4)), THETA_HAT, 0.16 * smoother @ smoother.T)


@pytest.mark.statistics
def test_repeated_rows_get_the_noise_of_all_their_rewards() -> None:
    once, twice = (np.empty((3000, 1)) for _ in range(2))
    for thetas, rows in ((once, [[1.0], [1.0 + 1e-12]]), (twice, [[1.0], [1.0]])):
        bandit = Bandit(Evill(link="identity"), dim=1, seed=3)
        bandit.learn(rows[0], 0.0)
        state = bandit.state
        for i in range(len(thetas)):
            bandit._state = state.copy()
            bandit.learn(rows[1], 0.0)
            thetas[i] = bandit.state[1]
    # Both have variance 1/3, known to five times sqrt(2/3000) of it.
    for thetas in (once, twice):
        assert thetas.var() == pytest.approx(1 / 3, rel=5 * math.sqrt(2 / 3000))


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
def test_langevin_steps_reach_the_posterior_of_a_linear_model() -> None:
    # With step size h the variance exceeds that of the posterior by 1/(1 - h c/2) in a direction of curvature c; here
    # h c < 0.02. After 400 steps the correlation is exp(-400 h c) with h c >= 0.005, so four draws count as one.
    thetas = draws(LmcTs(link="identity", exploration=0.4, steps=400, step=0.02), 1500)
    assert_normal(thetas, THETA_HAT, 0.16 * V_INVERSE, independent=0.25)


@pytest.mark.statistics
@pytest.mark.parametrize(
    "policy", [LmcTs(exploration=0.0, steps=2000), PgTs(exploration=0.0, sweeps=200), Evill(exploration=0.0)]
)
def test_perturbed_policies_without_noise_are_greedy(policy: Any) -> None:
    rewards = (Y > 0).astype(float)
    thetas = []
    for each in (policy, Greedy(ridge=1.0), GlmFpl(exploration=0.0)):
        bandit = Bandit(each, dim=2, seed=1)
        bandit.learn_batch(X, rewards)
        thetas.append(bandit.state[1:3])
    # PG-TS without normal noise still draws omega, so theta varies by some tenths of its standard error.
    np.testing.assert_allclose(thetas[0], thetas[1], atol=0.3 if policy.name == "pg-ts" else 1e-6)
    np.testing.assert_allclose(thetas[2], thetas[1], atol=1e-9)


@pytest.mark.statistics
@pytest.mark.parametrize("sweeps", [1, 5])
def test_pg_ts_has_the_exact_logistic_posterior(sweeps: int) -> None:
    rewards = np.array([1.0, 1.0, 1.0, 0.0, 1.0, 0.3])  # fractional rewards are allowed
    features = np.array([1.0, 2.0, -0.5, 1.0, 0.7, 1.5])
    bandit = Bandit(PgTs(sweeps=sweeps, ridge=0.5), dim=1, seed=4)
    bandit.learn_batch(features[:, np.newaxis], rewards)
    grid = np.linspace(-8, 12, 20_001)
    z = features[:, np.newaxis] * grid
    log_density = (rewards[:, np.newaxis] * z - np.logaddexp(0, z)).sum(axis=0) - 0.25 * grid**2
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = (grid * density).sum()
    variance = ((grid - mean) ** 2 * density).sum()
    chain = np.empty(6000)
    for i in range(len(chain)):  # rewards of a zero vector carry no information, but advance the chain
        bandit.learn([0.0], 0.0)
        chain[i] = bandit.state[1]
    # Successive draws are correlated. Five standard errors, counting a tenth of the draws as independent, are safe.
    assert abs(chain.mean() - mean) < 5 * math.sqrt(variance / 600)
    assert abs(chain.var() / variance - 1) < 5 * math.sqrt(3 / 600)


def test_unsupported_links_and_settings_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="supports only the logistic link"):
        PgTs(link="probit")
    with pytest.raises(InvalidInput, match="bounded slope, because its step size depends"):
        LmcTs(link="log")
    with pytest.raises(InvalidInput, match="ridge must be a finite number above 0"):
        Evill(ridge=0.0)
