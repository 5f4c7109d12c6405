import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from glbandits.maths.cholesky import factorise, solve_factorised
from glbandits.maths.vectors import add_scaled, add_scaled_row, best_arm, dot, dot_row, project_to_ball
from glbandits.records import Floats

numbers = st.floats(-10, 10, allow_subnormal=False)


@given(st.integers(1, 13), st.integers(1, 5), st.data())
def test_best_arm_is_the_first_of_equal_arms(K: int, dim: int, data: st.DataObject) -> None:
    arms = data.draw(arrays(np.float64, (K, dim), elements=st.integers(-3, 3).map(float)))
    theta = data.draw(arrays(np.float64, dim, elements=st.integers(-3, 3).map(float)))
    assert best_arm(arms, theta) == int(np.argmax(arms @ theta))


def test_equal_arms_have_equal_scores_at_every_index() -> None:
    arms = np.tile(np.random.default_rng(0).normal(size=17), (11, 1))
    assert best_arm(arms, np.random.default_rng(1).normal(size=17)) == 0


@given(arrays(np.float64, 4, elements=numbers), arrays(np.float64, 4, elements=numbers), st.floats(0.1, 5))
def test_projection_to_a_ball(theta: Floats, centre: Floats, radius: float) -> None:
    projected = theta.copy()
    project_to_ball(projected, centre, radius)
    distance = float(np.linalg.norm(theta - centre))
    if distance <= radius:
        np.testing.assert_array_equal(projected, theta)
    else:
        np.testing.assert_allclose(projected, centre + radius * (theta - centre) / distance, atol=1e-12)


def test_dot_sums_in_the_order_of_the_index() -> None:
    assert dot(np.array([1e16, 1.0, -1e16]), np.ones(3)) == 0.0


def test_row_functions_equal_vector_functions() -> None:
    A, b = np.random.default_rng(2).normal(size=(3, 7)), np.random.default_rng(3).normal(size=7)
    by_row, by_vector = b.copy(), b.copy()
    for row in range(3):
        assert dot_row(A, row, b) == dot(A[row], b)
        add_scaled_row(by_row, 0.3, A, row)
        add_scaled(by_vector, 0.3, A[row])
    np.testing.assert_array_equal(by_row, by_vector)


def test_cholesky_solves() -> None:
    rng = np.random.default_rng(5)
    A = rng.normal(size=(6, 6))
    A, b = A @ A.T + np.eye(6), rng.normal(size=6)
    L, x = A.copy(), b.copy()
    assert factorise(L, 0.0, np.full(6, 1e-12))
    solve_factorised(L, x)
    np.testing.assert_allclose(A @ x, b, atol=1e-12)


@pytest.mark.parametrize(
    "A", [np.zeros((2, 2)), np.ones((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]]), 1e-13 * np.eye(2)]
)
def test_cholesky_detects_singular_matrices(A: Floats) -> None:
    assert not factorise(A.copy(), 0.0, np.full(2, 1e-12))
