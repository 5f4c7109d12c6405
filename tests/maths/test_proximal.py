import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from glbandits import Bandit, LinUcb, OnlineLaplace
from glbandits.common.arrays import Floats
from glbandits.maths.links import LINKS, Link, LinkFunctions
from glbandits.maths.proximal import proximal_score, proximal_step, squared_distance


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@given(score=st.floats(-100, 100), variance=st.floats(0, 1e14), reward=st.sampled_from([0.0, 0.3, 1.0]))
def test_proximal_score_solves_its_equation(link: Link, score: float, variance: float, reward: float) -> None:
    z = proximal_score(score, variance, reward, LinkFunctions(link.mean, link.slope, link.antiderivative))
    slope = 1.0 + variance * link.slope(z)  # the largest distance of z from the root
    off = abs(z - score + variance * (link.mean(z) - reward)) / slope
    rounding = 1e-15 * variance * (link.mean(z) + reward) / slope  # the rounding error of the equation itself
    assert off <= 1e-9 * (1.0 + abs(z)) + rounding


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0.2, 1.0, 1e6])
def test_proximal_step_is_the_minimum_in_the_ellipsoid(seed: int, level: float) -> None:
    rng, link = np.random.default_rng(seed), LINKS["logistic"]
    R: Floats = np.triu(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    root = rng.normal(size=(3, 3))
    Q: Floats = root @ root.T + 0.5 * np.eye(3)
    theta, centre, x = rng.normal(size=3), rng.normal(size=3), 2 * rng.normal(size=3)
    step = proximal_step(
        theta, R, 0.3, x, 0.25, 2.0, centre, Q, level, LinkFunctions(link.mean, link.slope, link.antiderivative)
    )

    def loss(point: Floats) -> float:
        moved, z = R @ (point - theta), float(x @ point)
        return float(0.15 * moved @ moved + 2.0 * (link.antiderivative(z) - 0.25 * z))

    peer = minimize(
        loss,
        centre,
        constraints={"type": "ineq", "fun": lambda point: level - (point - centre) @ Q @ (point - centre)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert squared_distance(step, centre, Q) <= level * (1 + 1e-9)
    np.testing.assert_allclose(step, peer.x, atol=2e-4)
    assert loss(step) <= loss(peer.x) + 1e-8


def test_small_steps_keep_their_precision() -> None:
    # Ridge regression with features of length 1e7 and precision 1: the estimate is y/x, as far as floats go.
    bandit = Bandit(LinUcb(), dim=2, seed=1)
    X, y = 1e7 * np.array([[1.0, 0.5], [-0.3, 1.0]]), np.array([2.0, -1.0])
    for x, reward in zip(X, y, strict=True):
        bandit.learn(x, reward)
    np.testing.assert_allclose(bandit.state[:2], np.linalg.solve(X, y), rtol=1e-6)


def test_distant_root_of_the_log_link_is_found() -> None:
    bandit = Bandit(OnlineLaplace(link="log"), dim=1, seed=1)
    for _ in range(5):
        bandit.learn([1.0], 5.0)
    bandit.learn([50.0], 5.0)
    assert bandit.state[0] == pytest.approx(0.0348, abs=1e-3)
