import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from glbandits.common.arrays import Floats
from glbandits.maths.matrix_products import best_arm
from glbandits.maths.vectors import add_scaled, add_scaled_row, dot, dot_row, project_to_ball

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
