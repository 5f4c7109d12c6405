import numpy as np
import pytest

from glbandits.maths.low_rank import factor_of_bound, factor_of_decrease, largest_growth
from glbandits.records import Floats


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
    decrease = factor_of_decrease(before, before - columns.T @ columns, largest_rank=3)
    assert decrease is not None
    factor, remainder = decrease
    assert factor.shape == (rank, 6)
    np.testing.assert_allclose(factor.T @ factor, columns.T @ columns, atol=1e-12)
    assert remainder < 1e-11


def test_increase_and_larger_rank_have_no_factor() -> None:
    before, x = covariance(1), np.random.default_rng(2).normal(size=6)
    assert factor_of_decrease(before, before + 1e-3 * np.outer(x, x), largest_rank=3) is None
    assert factor_of_decrease(before, 0.5 * before, largest_rank=3) is None


def test_growth_is_the_largest_ratio_of_variances() -> None:
    before, after = covariance(1), covariance(2)
    growth = largest_growth(before, after)
    assert growth == pytest.approx(np.linalg.eigvals(np.linalg.solve(before, after)).real.max(), rel=1e-5)
    assert least_eigenvalue(growth * before - after) >= 0.0


@pytest.mark.parametrize("matrix", [covariance(1), np.ones((4, 4)), np.ones((4, 4)) - 1e-9 * np.eye(4)])
def test_factor_bounds_matrices_that_rounding_made_indefinite(matrix: Floats) -> None:
    factor = factor_of_bound(matrix)
    np.testing.assert_array_equal(factor, np.tril(factor))
    assert least_eigenvalue(factor @ factor.T - matrix) >= -1e-14 * np.trace(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-7)
