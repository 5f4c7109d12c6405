import numpy as np
import pytest
from scipy.optimize import minimize

from glbandits.common.arrays import Floats
from glbandits.maths.fitting.fit_in_ball import fit_in_ball, match_means_in_ball, refit_in_ball
from glbandits.maths.fitting.likelihood import fit
from glbandits.maths.fitting.warm_fit import absorb, memory_size
from glbandits.maths.links import LINKS, Link
from tests.maths.link_support import link_functions


def data(link: Link, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    means = np.array([link.mean(z) for z in X @ [1.5, -1.0, 0.5]])
    y = means + rng.normal(size=60) if link.name == "identity" else rng.poisson(means).astype(float)
    if link.highest_reward == 1.0:
        y = (rng.random(60) < means).astype(float)
    return X, y, rng.integers(1, 4, 60).astype(float)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("radius", [0.4, 1.0, 50.0])
def test_fit_in_ball_agrees_with_a_general_solver(link: Link, radius: float) -> None:
    X, y, weights = data(link)
    theta = fit_in_ball(X, y, weights, 0.1, radius, np.zeros(3), link_functions(link))

    def loss(point: Floats) -> float:
        return float(
            sum(w * (link.antiderivative(z) - r * z) for w, z, r in zip(weights, X @ point, y, strict=True))
            + 0.05 * point @ point
        )

    peer = minimize(
        loss,
        np.zeros(3),
        constraints={"type": "ineq", "fun": lambda point: radius**2 - point @ point},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert np.linalg.norm(theta) <= radius * (1 + 1e-9)
    in_ball = peer.x * min(1.0, radius / np.linalg.norm(peer.x))  # the other solver may be outside by 1e-10
    assert loss(theta) <= loss(in_ball) + 1e-8
    np.testing.assert_allclose(theta, peer.x, atol=1e-4)


def test_fit_in_a_large_ball_is_the_plain_fit() -> None:
    link = LINKS["logistic"]
    X, y, weights = data(link)
    plain = fit(X, y, weights, 0.3, np.zeros(3), link_functions(link)).theta
    inside = fit_in_ball(X, y, weights, 0.3, 100.0, np.ones(3), link_functions(link))
    np.testing.assert_allclose(inside, plain, atol=1e-8)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_matched_means_are_the_nearest_in_the_ball(link: Link) -> None:
    X, _, weights = data(link)
    theta_hat, radius = np.array([1.5, -1.0, 0.5]), 0.8
    M = np.eye(3) + (X.T * weights) @ X
    R: Floats = np.array(np.linalg.cholesky(M).T, dtype=np.float64, order="C")
    matched = match_means_in_ball(X, weights, 0.7, R, radius, theta_hat, link_functions(link))

    def distance(point: Floats) -> float:
        gap = X.T @ (
            weights * np.array([link.mean(a) - link.mean(b) for a, b in zip(X @ point, X @ theta_hat, strict=True)])
        )
        gap += 0.7 * (point - theta_hat)
        return float(gap @ np.linalg.solve(M, gap))

    rng = np.random.default_rng(0)
    assert np.linalg.norm(matched) == pytest.approx(radius, rel=1e-9)
    for _ in range(300):  # no point of the ball is nearer
        point = matched + rng.normal(size=3) * rng.choice([1e-3, 0.1, 1.0])
        point *= min(1.0, radius / np.linalg.norm(point))
        assert distance(matched) <= distance(point) + 1e-9
    np.testing.assert_array_equal(
        match_means_in_ball(X, weights, 0.7, R, 2.0, theta_hat, link_functions(link)), theta_hat
    )


def test_fit_in_ball_does_not_depend_on_a_far_start() -> None:
    link = LINKS["logistic"]
    X, y, weights = data(link)
    near = fit_in_ball(1e3 * X, y, weights, 0.1, 50.0, np.zeros(3), link_functions(link))
    far = fit_in_ball(1e3 * X, y, weights, 0.1, 50.0, np.array([50.0, 0.0, 0.0]), link_functions(link))
    np.testing.assert_allclose(far, near, atol=1e-6)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("radius", [0.4, 1.5, 50.0])
def test_refits_in_a_ball_agree_with_fits_from_scratch(link: Link, radius: float) -> None:
    X, y, _ = data(link)
    theta, memory = np.zeros(3), np.zeros(memory_size(3))
    for t in range(1, 61):
        absorb(theta, memory, X[t - 1], float(y[t - 1]), link_functions(link))
        refit_in_ball(X[:t], y[:t], np.ones(t), 1e-3, radius, theta, memory, link_functions(link))
        assert np.linalg.norm(theta) <= radius * (1 + 1e-12)
        if t % 6 == 1:
            scratch = fit_in_ball(X[:t], y[:t], np.ones(t), 1e-3, radius, np.zeros(3), link_functions(link))
            np.testing.assert_allclose(theta, scratch, rtol=1e-6, atol=1e-6)
