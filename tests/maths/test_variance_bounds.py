import numpy as np
import pytest

from glbandits.common.arrays import Floats
from glbandits.maths.variance_bounds import general_update, low_rank_update, upper_bound_factor


def covariance(seed: int, size: int = 6) -> Floats:
    root = np.random.default_rng(seed).normal(size=(size, 2 * size))
    product: Floats = root @ root.T
    return product


def least_eigenvalue(matrix: Floats) -> float:
    return float(np.linalg.eigvalsh(matrix)[0])


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_decrease_of_low_rank_is_factorised(rank: int) -> None:
    before = covariance(1)
    columns = 0.1 * np.random.default_rng(2).normal(size=(rank, 6))
    update = low_rank_update(before, before - columns.T @ columns, largest_rank=3)
    assert update is not None
    assert update.growth == 1.0
    assert update.columns.shape == (rank, 6)
    np.testing.assert_allclose(update.columns.T @ update.columns, columns.T @ columns, atol=1e-12)
    assert update.remainder < 1e-11


def test_increase_and_higher_rank_give_no_low_rank_update() -> None:
    before, x = covariance(1), np.random.default_rng(2).normal(size=6)
    assert low_rank_update(before, before + 1e-3 * np.outer(x, x), largest_rank=3) is None
    assert low_rank_update(before, 0.5 * before, largest_rank=3) is None


@pytest.mark.parametrize("ridge", [0.0, 3.0])
@pytest.mark.parametrize("rank", [0, 2, 6])
@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_bound_of_any_change_is_above_the_variance(scale: float, rank: int, ridge: float) -> None:
    before, after, rows = covariance(1), scale * covariance(2), np.random.default_rng(3).normal(size=(500, 6))
    bounds = general_update(before, after, rank, ridge).bound(rows, np.einsum("ai,ij,aj->a", rows, before, rows))
    variances = np.einsum("ai,ij,aj->a", rows, after, rows)
    assert (bounds >= variances).all()
    if rank == 6:  # as many columns as directions: the bound is exact
        np.testing.assert_allclose(bounds, variances, rtol=1e-6)


def test_growth_is_the_largest_variance_ratio() -> None:
    before, after = covariance(1), covariance(2)
    expected = np.linalg.eigvals(np.linalg.solve(before, after)).real.max()
    assert general_update(before, after, rank=0, ridge=0.0).growth == pytest.approx(expected, rel=1e-5)


def test_bound_holds_for_singular_matrices() -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 6))
    before, after = np.outer(x, x) + 1e-14 * np.eye(6), 2.0 * np.outer(x, x) + 1e-9 * np.outer(y, y)
    rows = np.random.default_rng(3).normal(size=(500, 6))
    bounds = general_update(before, after, rank=2, ridge=0.0).bound(rows, np.einsum("ai,ij,aj->a", rows, before, rows))
    assert (bounds >= np.einsum("ai,ij,aj->a", rows, after, rows)).all()


@pytest.mark.parametrize("matrix", [covariance(1), np.ones((4, 4)), np.ones((4, 4)) - 1e-9 * np.eye(4)])
def test_factor_bounds_nearly_singular_matrices(matrix: Floats) -> None:
    factor = upper_bound_factor(matrix)
    np.testing.assert_array_equal(factor, np.tril(factor))
    assert least_eigenvalue(factor @ factor.T - matrix) >= -1e-14 * np.trace(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-7)


def without_variance(matrix: Floats, *features: int) -> Floats:
    matrix = matrix.copy()
    for feature in features:
        matrix[feature] = matrix[:, feature] = 0.0
    return matrix


@pytest.mark.filterwarnings("error")
def test_features_may_have_no_variance() -> None:
    matrix, rows = without_variance(covariance(1), 2), np.random.default_rng(3).normal(size=(500, 6))
    np.testing.assert_allclose(upper_bound_factor(matrix) @ upper_bound_factor(matrix).T, matrix, rtol=1e-9)
    column = 0.1 * matrix[0]
    assert low_rank_update(matrix, matrix - np.outer(column, column) / matrix[0, 0], largest_rank=1) is not None
    before = np.einsum("ai,ij,aj->a", rows, matrix, rows)
    for after in (without_variance(covariance(2), 2), without_variance(covariance(2), 4), covariance(2)):
        bounds = general_update(matrix, after, rank=2, ridge=0.0).bound(rows, before)
        assert (bounds >= np.einsum("ai,ij,aj->a", rows, after, rows)).all()
