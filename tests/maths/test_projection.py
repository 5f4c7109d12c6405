import numpy as np
import pytest
from scipy.optimize import minimize

from glbandits.common.arrays import Floats
from glbandits.maths.projection import project_in_norm


@pytest.mark.parametrize("seed", range(5))
def test_projection_is_the_nearest_point_in_the_norm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    R: Floats = np.triu(rng.normal(size=(4, 4))) + 3 * np.eye(4)
    theta: Floats = 3.0 * rng.normal(size=4)
    A, projected = R.T @ R, theta.copy()
    project_in_norm(projected, R, 1.5)
    peer = minimize(
        lambda point: (point - theta) @ A @ (point - theta),
        np.zeros(4),
        constraints={"type": "ineq", "fun": lambda point: 1.5**2 - point @ point},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.linalg.norm(projected) <= 1.5 * (1 + 1e-12)
    np.testing.assert_allclose(projected, peer.x, atol=1e-5)


def test_projection_inside_the_ball_and_for_scaled_identity() -> None:
    inside, outside = np.array([0.3, -0.2]), np.array([3.0, -4.0])
    project_in_norm(inside, np.eye(2), 1.0)
    project_in_norm(outside, 7.0 * np.eye(2), 1.0)
    np.testing.assert_array_equal(inside, [0.3, -0.2])
    np.testing.assert_allclose(outside, [0.6, -0.8], atol=1e-12)


@pytest.mark.parametrize("distance", [1e-9, 1.0, 1e3, 1e60])
@pytest.mark.parametrize("condition", [1.0, 1e6, 1e12])
def test_projection_is_on_the_sphere(distance: float, condition: float) -> None:
    rng = np.random.default_rng(3)
    dim, radius = 30, 0.7
    rotation = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    A = rotation @ np.diag(np.geomspace(1.0, condition, dim)) @ rotation.T
    R: Floats = np.linalg.cholesky((A + A.T) / 2).T.copy()
    direction = rng.normal(size=dim)
    theta: Floats = direction / np.linalg.norm(direction) * radius * (1.0 + distance)
    before = theta.copy()
    project_in_norm(theta, R, radius)
    assert np.linalg.norm(theta) == pytest.approx(radius, rel=1e-9 + 1e-17 * condition)
    if distance <= 1e3 and condition * 1e-16 < 1e-3 * distance:
        pull = R.T @ (R @ (before - theta))  # optimal: a positive multiple of the point
        cosine = pull @ theta / np.linalg.norm(pull) / np.linalg.norm(theta)
        assert cosine == pytest.approx(1.0, abs=1e-5)
