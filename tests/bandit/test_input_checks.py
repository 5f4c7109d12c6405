from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from glbandits import Bandit, Optimist
from glbandits.bandit.entry_points import arms_check_recipe
from glbandits.common.errors import InvalidInput
from glbandits.compilation.entry_point import EntryPoint


@pytest.mark.parametrize("mode", ["now", "never"])
def test_valid_arms_have_the_width_and_finite_numbers(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLBANDITS_COMPILE", mode)
    are_valid = EntryPoint(arms_check_recipe, (False,)).call
    assert are_valid(np.zeros((3, 2)), 2)
    assert not are_valid(np.zeros((3, 2)), 3)
    assert not are_valid(np.zeros((0, 2)), 2)
    assert not are_valid(np.array([[0.0, np.nan]]), 2)
    assert not are_valid(np.array([[0.0, 1e60]]), 2)
    with pytest.raises(TypeError):
        are_valid(np.zeros((3, 2), dtype=np.float32), 2)


def test_exact_probabilities_check_their_input() -> None:
    bandit = Bandit(Optimist(), dim=2, seed=0)
    arms = np.array([[1.0, 0.0], [0.0, 1.0]])
    exact = bandit.exact_probabilities(arms)
    assert exact is not None
    for same in (arms.astype(np.float32), np.asfortranarray(arms), arms.tolist(), arms.astype(int)):
        np.testing.assert_array_equal(bandit.exact_probabilities(same), exact)
    with pytest.raises(InvalidInput, match=r"shape \(K, 2\)"):
        bandit.exact_probabilities(np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match="finite numbers"):
        bandit.exact_probabilities(np.array([[np.inf, 0.0]]))


@pytest.mark.parametrize(
    "reward",
    [np.float32(1), np.float16(1), np.longdouble(1), np.int8(1), np.uint64(1), np.bool_(True), True, np.array(1.0),
     Decimal(1), Fraction(1)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_scalar_of_any_number_type_is_a_reward(reward: Any, sparse: bool) -> None:
    bandit, expected = (Bandit(Optimist(), 2, seed=1, sparse=sparse) for _ in range(2))
    bandit.learn(np.eye(2, dtype=np.float32), reward, arm=np.int64(1))  # type: ignore[arg-type]
    expected.learn(np.eye(2), 1.0, arm=1)
    np.testing.assert_array_equal(bandit.state, expected.state)
    assert bandit.choose([[np.float32(1), np.int64(0)], [Decimal(0), np.bool_(True)]]) == expected.choose(np.eye(2))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (pd.NA, "must hold plain numbers; got <NA>.* Fill in or drop missing values first"),
        (None, "must hold finite numbers .*got nan.* Fill in or drop missing values first"),
        (10**400, "must be an array of numbers; NumPy cannot convert it: int too large"),
        (1 + 0j, "must hold plain numbers; got complex128"),
    ],
    ids=repr,
)
def test_scalar_that_is_no_number_is_refused_by_name(value: Any, message: str) -> None:
    bandit = Bandit(Optimist(), 2, seed=1)
    before = bandit.state
    with pytest.raises(InvalidInput, match=f"reward {message}"):
        bandit.learn([1.0, 0.0], value)
    with pytest.raises(InvalidInput, match="arms must"):
        bandit.choose(np.array([[value, 1.0]], dtype=object))
    np.testing.assert_array_equal(bandit.state, before)
