import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits import Bandit, LinUcb
from glbandits.maths.links import LINKS, Link, LinkFunctions
from glbandits.maths.proximal import proximal_score
from glbandits.policies import OnlineLaplace


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@given(score=st.floats(-100, 100), variance=st.floats(0, 1e14), reward=st.sampled_from([0.0, 0.3, 1.0]))
def test_proximal_score_solves_its_equation(link: Link, score: float, variance: float, reward: float) -> None:
    z = proximal_score(score, variance, reward, LinkFunctions(link.mean, link.slope, link.antiderivative))
    slope = 1.0 + variance * link.slope(z)  # the largest distance of z from the root
    off = abs(z - score + variance * (link.mean(z) - reward)) / slope
    rounding = 1e-15 * variance * (link.mean(z) + reward) / slope  # the rounding error of the equation itself
    assert off <= 1e-9 * (1.0 + abs(z)) + rounding


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
