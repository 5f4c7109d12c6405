import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from glbandits.common.arrays import Floats
from glbandits.maths.fitting.likelihood import RIDGE_WITHOUT_MLE, Fit, fit, fit_or_diverge
from glbandits.maths.links import LINKS, Link, LinkFunctions
from tests.maths.fitting.problems_without_an_estimate import without_an_estimate
from tests.maths.link_support import link_functions


def fitted(
    X: Floats,
    y: Floats,
    link: str = "logistic",
    ridge: float = 0.0,
    weights: Floats | None = None,
    start: Floats | None = None,
) -> Fit:
    return fit(
        X,
        y,
        np.ones(len(y)) if weights is None else weights,
        ridge,
        np.zeros(X.shape[1]) if start is None else start,
        link_functions(LINKS[link]),
    )


def problem(link: Link, samples: int = 200, dim: int = 4, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(samples, dim))
    means = np.array([link.mean(z) for z in X @ np.linspace(-0.6, 0.8, dim)])
    if link.name == "identity":
        return X, means + rng.normal(size=samples)
    return X, rng.poisson(means).astype(float) if link.name == "log" else (rng.random(samples) < means).astype(float)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_gradient_is_zero_at_the_fit(link: Link) -> None:
    X, y = problem(link)
    result = fitted(X, y, link.name)
    means = np.array([link.mean(z) for z in X @ result.theta])
    assert result.converged
    assert result.ridge == 0.0
    np.testing.assert_allclose(X.T @ (means - y), 0.0, atol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.5, 20.0])
def test_logistic_agrees_with_scikit_learn(ridge: float) -> None:
    X, y = problem(LINKS["logistic"])
    peer = LogisticRegression(
        C=1 / ridge if ridge else np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-12
    )
    np.testing.assert_allclose(fitted(X, y, ridge=ridge).theta, peer.fit(X, y).coef_[0], rtol=1e-7)


def test_poisson_with_weights_agrees_with_scikit_learn() -> None:
    X, y = problem(LINKS["log"])
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    peer = PoissonRegressor(alpha=0.0, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    peer.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(fitted(X, y, "log", weights=weights).theta, peer.coef_, rtol=1e-7)


def test_identity_is_least_squares() -> None:
    X, y = problem(LINKS["identity"])
    np.testing.assert_allclose(fitted(X, y, "identity").theta, np.linalg.lstsq(X, y)[0], rtol=1e-10)


def test_weights_count_as_repeated_rows() -> None:
    X, y = problem(LINKS["logistic"], samples=60)
    weights = np.resize([1.0, 2.0, 3.0], 60)
    twice = np.repeat(np.arange(60), weights.astype(int))
    np.testing.assert_allclose(fitted(X, y, weights=weights).theta, fitted(X[twice], y[twice]).theta, rtol=1e-9)


def test_fit_does_not_depend_on_a_warm_start() -> None:
    X, y = problem(LINKS["logistic"])
    cold = fitted(X, y)
    np.testing.assert_allclose(fitted(X, y, start=np.array([30.0, -30.0, 30.0, 9.0])).theta, cold.theta, rtol=1e-8)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_ridge_fit_with_fewer_samples_than_features(ridge: float) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(7, 12)), rng.integers(0, 2, 7).astype(float)
    wide = fitted(X, y, ridge=ridge)
    rows_of_zeros = np.zeros((6, 12))  # 13 rows of 12 features: the same objective, up to a constant
    tall = fitted(np.vstack([X, rows_of_zeros]), np.concatenate([y, np.zeros(6)]), ridge=ridge)
    assert wide.converged
    np.testing.assert_allclose(wide.theta, tall.theta, rtol=1e-8, atol=1e-12)


@without_an_estimate
def test_ridge_is_used_if_there_is_no_estimate(X: Floats, y: Floats, link: str) -> None:
    labels = y.copy()
    result = fitted(X, y, link)
    assert result.ridge == RIDGE_WITHOUT_MLE
    assert result.converged
    np.testing.assert_array_equal(result.theta, fitted(X, y, link, ridge=RIDGE_WITHOUT_MLE).theta)
    np.testing.assert_array_equal(y, labels)


def test_estimate_of_nearly_separable_data_is_found() -> None:
    X = np.concatenate([np.linspace(-8, -1, 40), np.linspace(1, 8, 40), [1.0]])[:, np.newaxis]
    y = (X[:, 0] > 0).astype(float)
    y[-1] = 0.0
    result = fitted(X, y)
    assert (result.converged, result.ridge) == (True, 0.0)
    assert result.theta[0] > 2.0


def test_fit_does_not_depend_on_a_far_start() -> None:
    X, y = problem(LINKS["logistic"])
    for far in (300.0, 1e4, 1e8):
        result = fitted(X, y, start=far * np.array([1.0, -1.0, 1.0, 0.0]))
        assert (result.converged, result.ridge) == (True, 0.0)
        np.testing.assert_allclose(result.theta, fitted(X, y).theta, rtol=1e-8)


@pytest.mark.parametrize("reward", [1e3, 1e15, 1e40])
def test_large_counts_are_fitted(reward: float) -> None:
    result = fitted(np.ones((30, 1)), np.full(30, reward), "log")
    assert (result.converged, result.ridge) == (True, 0.0)
    assert result.theta[0] == pytest.approx(np.log(reward), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_requested_ridge_is_used_for_wide_data(scale: float, ridge: float) -> None:
    rng = np.random.default_rng(7)
    X, y = scale * rng.normal(size=(20, 50)), rng.integers(0, 2, 20).astype(float)
    result = fitted(X, y, ridge=ridge)
    assert (result.converged, result.ridge) == (True, ridge)
    gradient = X.T @ (1 / (1 + np.exp(-X @ result.theta)) - y) + ridge * result.theta
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7 * scale)


def test_rows_of_weight_zero_do_not_count() -> None:
    X, y = problem(LINKS["logistic"], samples=60)
    weights = np.resize([1.0, 0.0, 1.0], 60)
    there = weights > 0
    np.testing.assert_allclose(fitted(X, y, weights=weights).theta, fitted(X[there], y[there]).theta, rtol=1e-9)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("samples", [3, 60])  # fewer than features, and more
def test_gradient_is_zero_at_a_fit_with_a_centre(link: Link, samples: int) -> None:
    X, y = problem(link, samples=samples, dim=5)
    centre, functions = np.linspace(-1.0, 1.0, 5), LinkFunctions(link.mean, link.slope, link.antiderivative)
    theta = fit_or_diverge(X, y, np.ones(samples), 0.7, centre, np.zeros(5), np.empty(5), functions).theta
    means = np.array([link.mean(z) for z in X @ theta])
    np.testing.assert_allclose(X.T @ (means - y) + 0.7 * (theta - centre), 0.0, atol=1e-7)
