import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.common.arrays import Floats
from glbandits.maths.posteriors.covariance_factor import (
    condition,
    factor_of_inverse,
    factorise_precision,
    from_cholesky,
    project,
    separate,
    to_precision,
)
from tests.maths.posteriors.block_parts import factor_of, matrix_of, positive_definite

SIZES = [1, 2, 3, 4, 5, 8, 21]


def random_factor(size: int, seed: int = 0) -> tuple[Floats, Floats]:
    """A random covariance matrix and its factor."""
    P = positive_definite(size, np.random.default_rng([seed, size]))
    return P, factor_of(P)


@pytest.mark.parametrize("size", SIZES)
def test_factor_represents_the_covariance(size: int) -> None:
    P, F = random_factor(size)
    np.testing.assert_allclose(matrix_of(F), P, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_conditioning_is_a_rank_one_update_of_the_inverse(size: int) -> None:
    P, F = random_factor(size)
    x, f, curvature = np.random.default_rng(size).normal(size=size), np.empty(size), 0.7
    variance = project(F, x, f)
    assert variance == pytest.approx(x @ P @ x, rel=1e-12)
    assert condition(F, f, curvature) == pytest.approx(1.0 + curvature * variance, rel=1e-12)
    np.testing.assert_allclose(f, P @ x, rtol=1e-9, atol=1e-12)
    expected = np.linalg.inv(np.linalg.inv(P) + curvature * np.outer(x, x))
    np.testing.assert_allclose(matrix_of(F), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_zero_curvature_changes_nothing(size: int) -> None:
    _, F = random_factor(size)
    before, f = F.copy(), np.empty(size)
    project(F, np.ones(size), f)
    condition(F, f, 0.0)
    np.testing.assert_array_equal(F, before)


@pytest.mark.parametrize("size", SIZES)
def test_separated_feature_leaves_the_covariance_of_the_others(size: int) -> None:
    P, F = random_factor(size)
    for k in range(size):
        expected, separated = P.copy(), F.copy()
        expected[k] = expected[:, k] = 0.0
        expected[k, k] = 3.5
        separate(separated, k, 3.5)
        np.testing.assert_allclose(matrix_of(separated), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_precision_and_back(size: int) -> None:
    P, F = random_factor(size)
    to_precision(F, 0.5)
    np.testing.assert_allclose(np.triu(F), np.triu(0.5 * np.linalg.inv(P)), rtol=1e-9, atol=1e-11)
    factorise_precision(F, np.zeros(size))
    from_cholesky(F)
    np.testing.assert_allclose(matrix_of(F), 2.0 * P, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", SIZES)
def test_factor_of_inverse_matches_the_inverse(size: int) -> None:
    H, scales = positive_definite(size, np.random.default_rng(size)), np.geomspace(1e-3, 1e3, size)
    expected = np.linalg.inv(H / np.outer(scales, scales))
    np.testing.assert_allclose(matrix_of(factor_of_inverse(H, scales)), expected, rtol=1e-8)


def test_pivots_are_raised_to_the_prior() -> None:
    # Rounding has made this sum of a prior of 1 and a positive semidefinite matrix indefinite.
    A = np.array([[1e20, 1e20], [1e20, 1e20]])
    factorise_precision(A, np.ones(2))
    from_cholesky(A)
    assert (np.diagonal(A) > 0.0).all()
    assert matrix_of(A)[1, 1] == pytest.approx(1.0)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 9]), st.floats(-50, 50), st.floats(0, 100))
def test_any_magnitudes_leave_positive_variances(seed: int, size: int, centre: float, spread: float) -> None:
    rng = np.random.default_rng(seed)
    F, f = np.eye(size), np.empty(size)
    for _ in range(40):
        x = rng.normal(size=size) * 10.0 ** np.clip(rng.uniform(centre - spread, centre + spread, size), -150, 50)
        variance = project(F, x, f)
        assert variance >= 0.0
        condition(F, f, min(10.0 ** rng.uniform(-30, 8), 1e8 / max(variance, 1e-290)))
        assert np.isfinite(F).all()
        assert (np.diagonal(F) > 0.0).all()
