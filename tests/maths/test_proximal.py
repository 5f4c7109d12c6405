import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from glbandits.maths.links import LINKS, Link, LinkFunctions
from glbandits.maths.proximal import excess, proximal_score, proximal_step
from glbandits.records import Floats


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@given(score=st.floats(-20, 20), variance=st.floats(0, 1e6), reward=st.sampled_from([0.0, 0.3, 1.0]))
def test_the_score_solves_its_equation(link: Link, score: float, variance: float, reward: float) -> None:
    z = proximal_score(score, variance, reward, LinkFunctions(link.mean, link.slope, link.antiderivative))
    slope = 1.0 + variance * link.slope(z)  # how far z is from the root, at the most
    assert abs(z - score + variance * (link.mean(z) - reward)) / slope <= 1e-9 * (1.0 + abs(z))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0.2, 1.0, 1e6])
def test_the_step_is_the_minimum_in_the_ellipsoid(seed: int, level: float) -> None:
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
    assert excess(step, centre, Q) <= level * (1 + 1e-9)
    np.testing.assert_allclose(step, peer.x, atol=2e-4)
    assert loss(step) <= loss(peer.x) + 1e-8
