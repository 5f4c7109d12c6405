"""Valid and invalid states of `Optimist`."""

import math
from typing import Any

import numpy as np
import pytest

from glbandits.maths.links import find_link
from glbandits.maths.posteriors.block_covariance import LARGEST_BLOCK
from glbandits.policies.algorithms.optimist import Optimist
from glbandits.policies.shared.posterior_state import (
    COUNT,
    CURVATURE,
    EXPECTED,
    INTERCEPT,
    INTERCEPT_PRECISION,
    LAST,
    NEXT,
    PRIOR_SCALE,
    SPREAD,
    SQUARED_RESIDUALS,
    WEIGHT,
    blocks_at,
    coupling_of,
    mean_of,
    presence_of,
    prior_of,
    squares_at,
)
from tests.policies.shared.posterior_parts import (
    is_valid,
    learned,
    linear_problem,
)


def test_state_of_another_shape_is_invalid() -> None:
    X, _, y = linear_problem(20, 3, seed=13)
    state = learned("identity", X, y)
    assert is_valid(state, 3)
    wrong: list[Any] = [state[:-1], np.append(state, 0.0), state[np.newaxis], state[:0], state.astype(np.float32)]
    assert not any(is_valid(other, 3) for other in wrong)
    assert not is_valid(state, 2)
    assert not is_valid(state, 4)


@pytest.mark.parametrize("dim", [3, LARGEST_BLOCK + 2])
@pytest.mark.parametrize(
    ("part", "index", "value"),
    [
        ("scalar", COUNT, 1.5),
        ("scalar", COUNT, -1.0),
        ("scalar", LAST, -1.0),
        ("scalar", NEXT, -1.0),
        ("scalar", WEIGHT, -1.0),
        ("scalar", SQUARED_RESIDUALS, -1.0),
        ("scalar", EXPECTED, -1.0),
        ("scalar", SPREAD, -1.0),
        ("scalar", CURVATURE, -1.0),
        ("scalar", PRIOR_SCALE, 0.0),
        ("scalar", PRIOR_SCALE, -1.0),
        ("scalar", INTERCEPT_PRECISION, 0.0),
        ("scalar", INTERCEPT_PRECISION, -1.0),
        ("scalar", INTERCEPT, math.nan),
        ("prior", 0, 0.0),
        ("prior", -1, -1.0),
        ("squares", 0, -1.0),
        ("presence", -1, -1.0),
        ("mean", 1, math.inf),
        ("coupling", 1, math.nan),
        ("blocks", 0, 0.0),  # the size of the first block
        ("blocks", 0, 2.0),
        ("blocks", 1, 1.0),  # its first feature
        ("blocks", -1, 0.0),  # the last variance
        ("blocks", -1, math.nan),
    ],
)
def test_impossible_values_make_a_state_invalid(dim: int, part: str, index: int, value: float) -> None:
    state = Optimist().init(dim)
    offsets = {
        "mean": mean_of(state, dim),
        "coupling": coupling_of(state, dim),
        "prior": prior_of(state, dim),
        "squares": state[squares_at(dim) : squares_at(dim) + dim],
        "presence": presence_of(state, dim),
        "blocks": state[blocks_at(dim) :],
        "scalar": state,
    }
    assert is_valid(state, dim)
    offsets[part][index] = value
    assert not is_valid(state, dim)


@pytest.mark.parametrize("level", [1e6, 1e10, 1e20])
def test_state_is_valid_after_huge_counts(level: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (70, 3)) / math.sqrt(3)
        y = np.floor(level * np.exp(X @ rng.normal(size=3)))
        with np.errstate(all="ignore"):
            state = learned("log", X, y)
        assert is_valid(state, 3)
        assert state[INTERCEPT] == pytest.approx(math.log(level), abs=3.0)


@pytest.mark.parametrize("link", ["identity", "logistic", "log"])
@pytest.mark.parametrize("size", [1e-50, 1e-9, 1e9, 1e20, 1e50])
def test_state_is_valid_after_an_outlier(size: float, link: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(140, 3))
        X[:13, 2] = 0.0
        X[13] = [0.0, 0.0, size]
        with np.errstate(all="ignore"):
            state = learned(link, X, rng.integers(0, 2, 140).astype(float))
        assert is_valid(state, 3)


@pytest.mark.parametrize("link", ["identity", "logistic", "log"])
def test_state_is_valid_after_rows_of_zeros(link: str) -> None:
    X = np.zeros((100, 2))
    y = np.resize([0.0, 1.0, 1.0], 100)
    state = learned(link, X, y)
    assert is_valid(state, 2)
    # Only the intercept was observed: it fits the mean of 2/3.
    assert find_link(link).mean(float(state[INTERCEPT])) == pytest.approx(2 / 3, abs=0.05)
    np.testing.assert_array_equal(mean_of(state, 2), 0.0)


@pytest.mark.parametrize("link", ["identity", "logistic", "log"])
def test_state_is_valid_after_equal_rewards(link: str) -> None:
    for reward in (0.0, 1.0):
        state = learned(link, np.tile(np.eye(2), (100, 1)), np.full(200, reward))
        assert is_valid(state, 2)
