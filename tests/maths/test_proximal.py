import pytest
from hypothesis import given
from hypothesis import strategies as st

from glbandits.maths.links import LINKS, Link, LinkFunctions
from glbandits.maths.proximal import proximal_score


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@given(score=st.floats(-20, 20), variance=st.floats(0, 1e6), reward=st.sampled_from([0.0, 0.3, 1.0]))
def test_the_score_solves_its_equation(link: Link, score: float, variance: float, reward: float) -> None:
    z = proximal_score(score, variance, reward, LinkFunctions(link.mean, link.slope, link.antiderivative))
    slope = 1.0 + variance * link.slope(z)  # how far z is from the root, at the most
    assert abs(z - score + variance * (link.mean(z) - reward)) / slope <= 1e-9 * (1.0 + abs(z))
