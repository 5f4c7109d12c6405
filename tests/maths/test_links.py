import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types

from glbandits import Bandit, InvalidInput, Link, Uniform, UnknownName
from glbandits.common.arrays import Floats
from glbandits.compilation.machine_code import compile_cached
from glbandits.compilation.numba_support import READ_VECTOR
from glbandits.maths.links import LINKS, find_link
from glbandits.policies import LaplaceTs
from tests.maths.link_support import cauchit_link

every_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


@every_link
@given(z=st.floats(-4, 4))
def test_inverse_undoes_mean(link: Link, z: float) -> None:
    assert link.inverse(link.mean(z)) == pytest.approx(z, abs=1e-9)


@every_link
@given(z=st.floats(-6, 6))
def test_slope_and_mean_are_derivatives(link: Link, z: float) -> None:
    h = 1e-5
    assert (link.mean(z + h) - link.mean(z - h)) / (2 * h) == pytest.approx(link.slope(z), rel=1e-5, abs=1e-9)
    numeric = (link.antiderivative(z + h) - link.antiderivative(z - h)) / (2 * h)
    assert numeric == pytest.approx(link.mean(z), rel=1e-5, abs=1e-8)


@every_link
@given(z=st.floats(-30, 30), step=st.floats(0.01, 5))
def test_mean_increases_with_at_most_the_lipschitz_slope(link: Link, z: float, step: float) -> None:
    # Near the highest reward, floats are too far apart to represent a small step.
    assert link.mean(z) < link.mean(z + step) or link.highest_reward - 1e-14 <= link.mean(z) <= link.mean(z + step)
    assert 0.0 <= link.slope(z) <= link.lipschitz * (1 + 1e-15)


@every_link
def test_lipschitz_constant_is_the_smallest(link: Link) -> None:
    steepest = max(link.slope(z) for z in np.linspace(-20, 20, 4001))
    assert steepest == pytest.approx(link.lipschitz, rel=1e-6) or math.isinf(link.lipschitz)


@every_link
@pytest.mark.parametrize("z", [499.0, 501.0, 600.0])
def test_derivatives_are_right_for_large_scores(link: Link, z: float) -> None:
    assert (link.mean(z + 1e-3) - link.mean(z - 1e-3)) / 2e-3 == pytest.approx(link.slope(z), rel=1e-6)
    numeric = (link.antiderivative(z + 1e-3) - link.antiderivative(z - 1e-3)) / 2e-3
    assert numeric == pytest.approx(link.mean(z), rel=1e-6)


def test_inverse_is_infinite_at_the_ends_of_the_range() -> None:
    for name in ("logistic", "probit"):
        assert LINKS[name].inverse(0.0) == -math.inf
        assert LINKS[name].inverse(1.0) == math.inf
    assert LINKS["log"].inverse(0.0) == -math.inf


@pytest.mark.safety
def test_link_functions_may_be_builtin_or_uncompilable() -> None:
    expo = Link(
        name="expo", mean=math.exp, slope=math.exp, antiderivative=math.exp, inverse=math.log, lipschitz=math.inf
    )
    Bandit(Uniform(link=expo), dim=1, seed=1).learn([1.0], 2.0)
    table = {"half": 0.5}
    odd = cauchit_link(name="odd", mean=lambda z: table["half"] + math.atan(z) / math.pi)
    with pytest.raises(InvalidInput, match="laplace-ts, odd cannot be compiled: it uses 'table'"):
        Bandit(LaplaceTs(link=odd), dim=1)


@every_link
@pytest.mark.parametrize("z", [-1e4, -750.0, 750.0, 1e4])
def test_nothing_overflows(link: Link, z: float) -> None:
    for function in (link.mean, link.slope, link.antiderivative):
        assert math.isfinite(function(z))
    assert link.lowest_reward <= link.mean(z) <= link.highest_reward


def test_known_values() -> None:
    assert LINKS["logistic"].mean(0.0) == 0.5
    assert LINKS["logistic"].mean(math.log(3)) == pytest.approx(0.75, rel=1e-15)
    assert LINKS["probit"].mean(1.959963984540054) == pytest.approx(0.975, rel=1e-14)
    assert LINKS["log"].mean(1.0) == math.e
    assert LINKS["identity"].antiderivative(3.0) == 4.5


def test_unknown_link_is_reported_with_a_similar_name() -> None:
    with pytest.raises(UnknownName, match="unknown link 'logistc'; did you mean"):
        find_link("logistc")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": lambda z: -z}, "mean must be strictly increasing"),
        ({"antiderivative": lambda z: z}, "mean must be the derivative of antiderivative"),
        ({"lipschitz": math.nan}, "lipschitz must be the largest slope"),
        ({"lowest_reward": 2.0}, "lowest_reward must be below highest_reward"),
        ({"name": "logistic"}, "name must be a text that is not the name of a built-in"),
    ],
)
def test_inconsistent_link_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        cauchit_link(**changes)


@pytest.mark.parametrize(
    ("name", "reward"), [("logistic", 1.5), ("log", -1.0), ("identity", math.inf), ("probit", math.nan)]
)
def test_rewards_outside_the_domain_are_refused(name: str, reward: float) -> None:
    with pytest.raises(InvalidInput, match=f"a reward under the {name} link must be a finite number"):
        LINKS[name].check_reward(reward)


@pytest.mark.safety
@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_compiled_links_equal_uncompiled_ones(link: Link) -> None:
    mean, slope, antiderivative = link.mean, link.slope, link.antiderivative

    def fill(scores: Floats, out: Floats) -> None:
        for i in range(scores.shape[0]):
            out[i, 0], out[i, 1], out[i, 2] = mean(scores[i]), slope(scores[i]), antiderivative(scores[i])

    rng = np.random.default_rng(5)
    scores = np.concatenate([rng.normal(0.0, scale, 2000) for scale in (1.0, 10.0, 1e3)] + [[0.0, -0.0, 1e4, -1e4]])
    compiled, plain = np.empty((len(scores), 3)), np.empty((len(scores), 3))
    signature = types.void(READ_VECTOR, types.float64[:, ::1])
    compile_cached(fill, signature=signature, name=link.name)(scores, compiled)
    fill(scores, plain)
    assert compiled.tobytes() == plain.tobytes()


@pytest.mark.parametrize("name", LINKS)
def test_pickled_built_in_link_is_the_same_object(name: str) -> None:
    assert pickle.loads(pickle.dumps(LINKS[name])) is LINKS[name]
