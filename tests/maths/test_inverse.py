import numpy as np
import pytest

from glbandits.maths.inverse import invert
from tests.maths.posteriors.block_parts import positive_definite


@pytest.mark.parametrize("size", [1, 2, 5, 8, 40])
def test_invert_gives_a_symmetric_inverse(size: int) -> None:
    H = positive_definite(size, np.random.default_rng(size))
    P = H.copy()
    invert(P)
    np.testing.assert_allclose(P @ H, np.eye(size), atol=1e-10)
    np.testing.assert_array_equal(P, P.T)


def test_sizes_of_elements_may_differ_by_many_orders() -> None:
    scales = 10.0 ** np.array([-40.0, -3.0, 0.0, 5.0, 60.0])
    H = positive_definite(5, np.random.default_rng(1))
    P = H * np.outer(scales, scales)
    invert(P)
    np.testing.assert_allclose((P * np.outer(scales, scales)) @ H, np.eye(5), atol=1e-10)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e50])
def test_inverse_of_a_singular_matrix_is_finite(value: float) -> None:
    P = np.full((3, 3), value)
    invert(P)
    assert np.isfinite(P).all()
    np.testing.assert_array_equal(P, P.T)
    assert (np.diagonal(P) > 0.0).all()
