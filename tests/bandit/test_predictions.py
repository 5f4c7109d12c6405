from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from glbandits import Bandit, FeatureMap, InvalidInput, Optimist, Policy, Prediction, SparseRows
from glbandits.common.arrays import Floats
from glbandits.maths.links import find_link
from glbandits.maths.sparse_rows import as_sparse_rows
from glbandits.policies import LaplaceTs, LinTs

ARMS = np.array([[1.0, 0.5, -1.0], [0.0, 0.0, 0.0], [-2.0, 1.0, 0.3]])
THETA = np.array([1.0, -0.5, 0.3])


def learned(policy: Policy, rewards: int = 60, **settings: Any) -> Bandit:
    bandit, rng = Bandit(policy, dim=3, seed=1, **settings), np.random.default_rng(1)
    X, mean = rng.normal(size=(rewards, 3)), find_link(policy.link).mean
    bandit.learn_batch(as_sparse_rows(X, 3) if bandit.sparse else X, [mean(float(x @ THETA)) for x in X])
    return bandit


@pytest.mark.parametrize("link", ["identity", "logistic", "probit", "log"])
def test_prediction_is_the_mean_at_the_estimated_score(link: str) -> None:
    bandit = learned(Optimist(link=link))
    coefficients, mean = bandit.coefficients(), find_link(link).mean
    assert coefficients is not None
    scores = ARMS @ coefficients.theta + coefficients.intercept
    np.testing.assert_allclose(bandit.predict(ARMS), [mean(float(z)) for z in scores], rtol=1e-9)


def test_linear_interval_is_that_of_ridge_regression() -> None:
    bandit, X = Bandit(LinTs(noise=2.0, prior_precision=3.0), dim=3), np.random.default_rng(1).normal(size=(40, 3))
    bandit.learn_batch(X, X @ THETA)
    V = 3.0 * np.eye(3) + X.T @ X
    half = 1.6448536 * 2.0 * np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(V), ARMS))
    found = bandit.predict(ARMS, interval=0.9)
    assert isinstance(found, Prediction)
    np.testing.assert_allclose(found.mean, ARMS @ np.linalg.solve(V, X.T @ (X @ THETA)))
    np.testing.assert_allclose(found.high - found.mean, half, atol=1e-7)
    np.testing.assert_allclose(found.mean - found.low, half, atol=1e-7)


@pytest.mark.parametrize("policy", [Optimist(covariance="diagonal"), LaplaceTs(prior_precision=4.0)])
def test_sparse_form_predicts_as_the_dense_one(policy: Policy) -> None:
    dense, sparse = learned(policy), learned(policy, sparse=True)
    arms = np.vstack([ARMS, [[0.0, 7.0, 0.0]]])
    np.testing.assert_allclose(sparse.predict(as_sparse_rows(arms, 3)), dense.predict(arms), rtol=1e-6)
    for one, other in zip(
        sparse.predict(as_sparse_rows(arms, 3), interval=0.8), dense.predict(arms, interval=0.8), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_features_that_were_never_learned_have_the_variance_of_the_prior() -> None:
    bandit = Bandit(LaplaceTs(prior_precision=4.0), dim=10, sparse=True)
    bandit.learn(SparseRows(np.array([0, 1]), np.array([3]), np.array([1.0])), 1.0)
    found = bandit.predict(SparseRows(np.array([0, 0, 1]), np.array([7]), np.array([2.0])), interval=0.9)
    np.testing.assert_allclose(found.high, expit([0.0, 1.6448536 * np.sqrt(2.0**2 / 4.0)]))


@pytest.mark.parametrize("dim", [3, 200])
def test_blocks_and_selected_half_lives_have_intervals(dim: int) -> None:
    for half_life in (None, "auto"):
        bandit, rng = Bandit(Optimist(half_life=half_life), dim=dim, seed=1), np.random.default_rng(2)
        for _ in range(10):
            x = np.zeros(dim)
            x[rng.integers(dim, size=3)] = 1.0
            bandit.learn(x, 1.0)
        low, high = bandit.predict(np.eye(dim)[:5], interval=0.9)[1:]
        assert (low < high).all()


def test_outlying_features_are_limited() -> None:
    bandit = learned(Optimist(link="identity"))
    usual, absurd = bandit.predict([[1.0, 0.0, 0.0]])[0], bandit.predict([[1e9, 0.0, 0.0]])[0]
    assert abs(absurd) < 3 * abs(usual)
    assert bandit.predict([[1e9, 0.0, 0.0]], interval=0.9).high[0] < 10


def test_predictions_take_rows_of_named_values() -> None:
    table = {"arm": ["a", "b"] * 20, "age": list(range(20, 60))}
    features = FeatureMap.learn(table, arm=["arm"], context=["age"])
    bandit = Bandit("optimist", features=features, seed=1)
    rows = [{"arm": "a", "age": 30}, {"arm": "b", "age": 30}]
    bandit.learn(rows, 1.0, arm=1)
    assert bandit.predict(rows)[1] > bandit.predict(rows)[0]


@pytest.mark.parametrize("interval", [0.0, 1.0, -1, 90, "0.9", True, np.nan])
def test_invalid_interval_is_refused(interval: Any) -> None:
    with pytest.raises(InvalidInput, match="interval must be a finite number above 0"):
        learned(Optimist()).predict(ARMS, interval=interval)


@pytest.mark.parametrize("arms", [np.zeros((2, 4)), [], [[np.nan, 0, 0]], "text"])
def test_invalid_arms_are_refused(arms: Any) -> None:
    with pytest.raises(InvalidInput, match="arms must"):
        learned(Optimist()).predict(arms)


def coverage(policy: Policy, rewards: int, *, adaptive: bool, seeds: int = 30) -> float:
    """The share of 90 % intervals of random arms that hold the expected reward."""
    link, hits = find_link(policy.link), []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        bandit, theta = Bandit(policy, dim=5, seed=seed), rng.normal(size=5) * 0.7
        theta *= 3.0 if link.name == "identity" else 1.0
        for _ in range(rewards):
            arms = rng.normal(size=(5, 5))
            arm = bandit.choose(arms) if adaptive else 0
            bandit.learn(arms[arm], _reward(link.name, link.mean(float(arms[arm] @ theta) - 0.5), rng))
        arms = rng.normal(size=(50, 5))
        truth: Floats = np.array([link.mean(float(x @ theta) - 0.5) for x in arms])
        _, low, high = bandit.predict(arms, interval=0.9)
        hits.append(np.mean((low <= truth) & (truth <= high)))
    return float(np.mean(hits))


def _reward(link: str, mean: float, rng: np.random.Generator) -> float:
    if link == "identity":
        return float(rng.normal(mean, 3.0))
    return float(rng.poisson(mean)) if link == "log" else float(rng.random() < mean)


@pytest.mark.statistics
@pytest.mark.usefixtures("compiled_now")
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize(("link", "least"), [("logistic", 0.8), ("identity", 0.8), ("log", 0.75), ("probit", 0.7)])
def test_intervals_hold_about_as_often_as_they_say(link: str, least: float, adaptive: bool) -> None:
    # The standard error of each share is about 0.02, because arms of one seed depend on the same estimate.
    assert least < coverage(Optimist(link=link), 300, adaptive=adaptive) < 0.97
