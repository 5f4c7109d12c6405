import numpy as np
import pytest

from glbandits.maths.matrix_products import add_rows, set_gram, set_scores


@pytest.mark.parametrize("n", [0, 1, 3, 4, 9])
@pytest.mark.parametrize("dim", [1, 5])
def test_products_agree_with_numpy(n: int, dim: int) -> None:
    rng = np.random.default_rng(n)
    X, scales, theta = rng.normal(size=(n, dim)), rng.random(n), rng.normal(size=dim)
    scores, total, A = np.empty(n), theta.copy(), np.full((dim, dim), 7.0)
    set_scores(scores, X, theta)
    add_rows(total, scales, X)
    set_gram(A, scales, X, 0.5)
    np.testing.assert_allclose(scores, X @ theta)
    np.testing.assert_allclose(total, theta + X.T @ scales)
    np.testing.assert_allclose(A, np.triu((X.T * scales) @ X + 0.5 * np.eye(dim)))
