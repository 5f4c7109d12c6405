import numpy as np

from glbandits.maths.cholesky import backward, factorise, forward, inverse_norm, update
from glbandits.maths.philox import generator
from glbandits.maths.posteriors.gaussian_posterior import best_with_bonus, draw_with_precision, score_and_norm
from glbandits.maths.vectors import dot
from glbandits.records import Floats

RNG = np.random.default_rng(6)
A = RNG.normal(size=(4, 4))
V: Floats = A @ A.T + np.eye(4)
R: Floats = np.array(np.linalg.cholesky(V).T, dtype=np.float64, order="C")


def test_triangular_solves_and_norms() -> None:
    b = RNG.normal(size=4)
    x, y = b.copy(), b.copy()
    forward(R, x)
    backward(R, y)
    np.testing.assert_allclose(R.T @ x, b, atol=1e-12)
    np.testing.assert_allclose(R @ y, b, atol=1e-12)
    assert np.isclose(inverse_norm(R, b, np.empty(4)), np.sqrt(b @ np.linalg.solve(V, b)), rtol=1e-12)
    score_and_norm_of_b = score_and_norm(np.array([x, b]), 1, y, R, np.empty(4))
    assert score_and_norm_of_b == (dot(b, y), inverse_norm(R, b, np.empty(4)))


def test_rank_one_update_equals_that_of_the_matrix() -> None:
    factor, x = R.copy(), RNG.normal(size=4)
    update(factor, 0.7, x)
    np.testing.assert_allclose(factor.T @ factor, V + 0.7 * np.outer(x, x), rtol=1e-12)
    update(factor, 0.0, x)
    np.testing.assert_allclose(factor.T @ factor, V + 0.7 * np.outer(x, x), rtol=1e-12)


def test_draws_have_the_inverse_precision_as_covariance() -> None:
    rng, theta = generator(5), np.arange(4.0)
    draws = np.array([draw_with_precision(theta, R, 0.5, rng) for _ in range(4000)])
    covariance = 0.25 * np.linalg.inv(V)
    spread = np.sqrt(np.diag(covariance))
    # Means to five standard errors; covariances, in units of the spreads, to five of sqrt(2/4000) = 2.2 %.
    assert (np.abs(draws.mean(axis=0) - theta) < 5 * spread / np.sqrt(4000)).all()
    np.testing.assert_allclose(
        np.cov(draws.T) / np.outer(spread, spread), covariance / np.outer(spread, spread), atol=0.11
    )


def test_bonus_is_the_norm_of_the_arm() -> None:
    arms, theta = RNG.normal(size=(9, 4)), RNG.normal(size=4)
    norms = np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(V), arms))
    for scale in (-2.0, 0.0, 0.5, 30.0):
        assert best_with_bonus(arms, theta, R, scale) == int(np.argmax(arms @ theta + scale * norms))


def test_pivot_below_the_ridge_is_corrected() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        x = 1e4 * rng.normal(size=4)
        nearly_singular: Floats = 1e3 * np.outer(x, x) + 1e-6 * np.eye(4)
        factorise(nearly_singular, 1e-6, x)
        assert (np.diagonal(nearly_singular) >= 1e-3).all()
    B: Floats = V.copy()
    factorise(B, 1.0, np.zeros(4))
    np.testing.assert_allclose(np.triu(B), R, rtol=1e-12)
