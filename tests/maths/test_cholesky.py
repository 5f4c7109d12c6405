import numpy as np
import pytest

from glbandits.common.arrays import Floats
from glbandits.maths.cholesky import (
    backward,
    factorise,
    forward,
    inverse_norm,
    rank_one_update,
    solve_factorised,
    solve_for_variance,
)
from glbandits.maths.vectors import dot

RNG = np.random.default_rng(6)
A = RNG.normal(size=(4, 4))
V: Floats = A @ A.T + np.eye(4)
R: Floats = np.array(np.linalg.cholesky(V).T, dtype=np.float64, order="C")


def test_factorised_system_is_solved() -> None:
    rng = np.random.default_rng(5)
    A = rng.normal(size=(6, 6))
    A, b = A @ A.T + np.eye(6), rng.normal(size=6)
    L, x = A.copy(), b.copy()
    assert factorise(L, 0.0, np.full(6, 1e-12))
    solve_factorised(L, x)
    np.testing.assert_allclose(A @ x, b, atol=1e-12)


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 2)), np.ones((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]]), 1e-13 * np.eye(2)]
)
def test_singular_matrices_are_detected(matrix: Floats) -> None:
    assert not factorise(matrix.copy(), 0.0, np.full(2, 1e-12))


def test_triangular_solves_and_norms() -> None:
    b = RNG.normal(size=4)
    x, y = b.copy(), b.copy()
    forward(R, x)
    backward(R, y)
    np.testing.assert_allclose(R.T @ x, b, atol=1e-12)
    np.testing.assert_allclose(R @ y, b, atol=1e-12)
    assert np.isclose(inverse_norm(R, b, np.empty(4)), np.sqrt(b @ np.linalg.solve(V, b)), rtol=1e-12)


def test_rank_one_update_equals_that_of_the_matrix() -> None:
    factor, x = R.copy(), RNG.normal(size=4)
    rank_one_update(factor, 0.7, x)
    np.testing.assert_allclose(factor.T @ factor, V + 0.7 * np.outer(x, x), rtol=1e-12)
    rank_one_update(factor, 0.0, x)
    np.testing.assert_allclose(factor.T @ factor, V + 0.7 * np.outer(x, x), rtol=1e-12)


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


def test_variance_of_mixed_magnitudes_is_not_negative() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        R, direction = np.eye(8), np.empty(8)
        for _ in range(6):
            rank_one_update(R, 1.0, rng.choice([1.0, 1e6, 1e20, 1e50], 8) * rng.normal(size=8))
        x = rng.choice([1.0, 1e6, 1e20, 1e50], 8) * rng.normal(size=8)
        variance = solve_for_variance(R, x, direction)
        assert 0.0 <= variance < np.inf
        assert np.isfinite(direction).all()


def test_variance_is_the_product_with_the_direction() -> None:
    rng = np.random.default_rng(1)
    R, x, direction = np.triu(rng.uniform(1.0, 2.0, (4, 4))), rng.normal(size=4), np.empty(4)
    variance = solve_for_variance(R, x, direction)
    np.testing.assert_allclose(direction, np.linalg.solve(R.T @ R, x), rtol=1e-10)
    assert variance == dot(x, direction)


def test_factor_of_a_singular_matrix_of_large_numbers_is_finite() -> None:
    rng = np.random.default_rng(1)
    X = rng.choice([1.0, 1e20, 1e50], (5, 130)) * rng.normal(size=(5, 130))
    A = X.T @ X + np.eye(130)
    assert factorise(A, 1.0, np.empty(130))
    assert np.isfinite(np.triu(A)).all()
    assert (np.diagonal(A) > 0.0).all()
