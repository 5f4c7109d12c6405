from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Optimist
from glbandits.common.arrays import Floats
from glbandits.maths.links import LINKS, LinkFunctions
from glbandits.maths.philox import generator
from glbandits.policies.contract.compiled_calls import policy_functions
from glbandits.policies.parsing import parse_policy
from glbandits.policies.shared.half_life_selection import (
    CHANGES,
    COPIES,
    EVIDENCE,
    FIRST,
    REWARDS,
    THRESHOLD,
    copy_of,
    half_life_of,
    initial_copies,
    replace_main_copy,
    with_copy,
)

LOGISTIC = LinkFunctions(*(getattr(LINKS["logistic"], part) for part in LinkFunctions._fields))


def rewards_of(theta: Floats, rounds: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rounds, len(theta)))
    return X, (rng.random(rounds) < 1 / (1 + np.exp(-X @ theta))).astype(float)


def test_every_copy_is_an_optimist_with_its_half_life() -> None:
    X, y = rewards_of(np.array([1.0, -1.0]), 100, seed=1)
    adaptive = Bandit(Optimist(half_life="auto"), dim=2)
    adaptive.learn_batch(X, y)
    assert adaptive.state[CHANGES] == 0.0
    for i in range(COPIES):
        single = Bandit(Optimist(half_life=None if i == 0 else half_life_of(i, 2)), dim=2)
        single.learn_batch(X, y)
        np.testing.assert_array_equal(copy_of(adaptive.state, i), single.state)


def test_change_of_theta_replaces_the_main_copy() -> None:
    bandit = Bandit(Optimist(half_life="auto"), dim=2)
    for sign in (1.0, -1.0):
        bandit.learn_batch(*rewards_of(sign * np.array([3.0, -3.0]), 600, seed=2))
        assert (bandit.state[CHANGES] > 0.0) == (sign == -1.0)
    best = bandit.probabilities([[1.0, -1.0], [-1.0, 1.0]])
    assert best[1] > 0.9
    assert bandit.state[REWARDS] == 1200


def test_main_copy_decides_and_gives_the_coefficients() -> None:
    arms = np.array([[1.0, -1.0], [-1.0, 1.0], [0.5, 0.5]])
    policy, data = Optimist(half_life="auto"), rewards_of(np.array([1.0, -1.0]), 60, seed=3)
    bandit = Bandit(policy, dim=2)
    bandit.learn_batch(*data)
    _, _, probabilities, _, unpack, _ = policy_functions(policy.implementation(2))
    out = np.empty(3)
    for i in range(COPIES):
        state = with_copy(bandit.state, 0, copy_of(bandit.state, i))
        probabilities(state, unpack(policy.packed_settings(2)), arms, LOGISTIC, out)
        single = Bandit(Optimist(half_life=None if i == 0 else half_life_of(i, 2)), dim=2)
        single.learn_batch(*data)
        np.testing.assert_array_equal(out, single.probabilities(arms))
        main, expected = policy.coefficients(state, 2), single.coefficients()
        assert main is not None
        assert expected is not None
        np.testing.assert_array_equal([*main.theta, main.intercept], [*expected.theta, expected.intercept])


def test_most_evident_copy_replaces_the_main_copy() -> None:
    state = initial_copies(np.zeros(2))
    for i in range(COPIES):
        state = with_copy(state, i, np.full(2, float(i)))
    state[EVIDENCE + 1 : EVIDENCE + COPIES] = [50.0, 60.0, 0.0]
    state = replace_main_copy(state)
    np.testing.assert_array_equal([copy_of(state, i)[0] for i in range(COPIES)], [2.0, 1.0, 2.0, 3.0])
    assert state[REWARDS] == state[CHANGES] == 1.0
    assert not state[EVIDENCE + 1 : EVIDENCE + COPIES].any()


@pytest.mark.parametrize(("changes", "is_enough"), [(0, False), (1, True)])
def test_a_change_after_others_requires_less_evidence(changes: int, is_enough: bool) -> None:
    state = initial_copies(np.zeros(2))
    state[REWARDS], state[CHANGES], state[EVIDENCE + 1] = 999.0, changes, THRESHOLD + np.log(1500.0)
    assert (replace_main_copy(state)[CHANGES] > changes) == is_enough


def test_copy_may_grow() -> None:
    state = initial_copies(np.arange(3.0))
    grown = with_copy(state, 1, np.arange(10.0, 15.0))
    sizes = [copy_of(grown, i).size for i in range(COPIES)]
    assert sizes == [5 if i == 1 else 3 for i in range(COPIES)]
    np.testing.assert_array_equal(copy_of(grown, 1), np.arange(10.0, 15.0))
    np.testing.assert_array_equal(copy_of(grown, COPIES - 1), np.arange(3.0))
    np.testing.assert_array_equal(copy_of(with_copy(grown, 0, copy_of(grown, 1)), 0), np.arange(10.0, 15.0))


@pytest.mark.parametrize(
    ("offset", "value"),
    [(CHANGES, 0.5), (CHANGES, -1.0), (EVIDENCE + 1, -1.0), (FIRST, 1e9), (FIRST, 3)],
)
def test_impossible_state_is_invalid(offset: int, value: float) -> None:
    policy = Optimist(half_life="auto")
    state = policy.init(3)
    assert policy.is_valid_state(state, 3)
    state[offset] = value
    assert not policy.is_valid_state(state, 3)


@pytest.mark.filterwarnings("ignore::glbandits.OutlierWarning")
@pytest.mark.parametrize("link", ["identity", "log"])
def test_outliers_leave_a_finite_state(link: str) -> None:
    bandit, rng = Bandit(Optimist(half_life="auto", link=link), dim=2), np.random.default_rng(4)
    for reward in (0.0, 1e6, 0.0, 3.0, 1e20, 0.0, 1.0, 0.0, 2.0, 1e3):
        bandit.learn(1e3 * rng.uniform(-1, 1, 2), reward)
    assert np.isfinite(bandit.state).all()


def test_auto_survives_saving_and_the_command_line(tmp_path: Path) -> None:
    policy: Any = parse_policy("optimist:half_life=auto")
    assert policy == Optimist(half_life="auto")
    bandit = Bandit(policy, dim=2)
    bandit.learn_batch(*rewards_of(np.array([1.0, -1.0]), 20, seed=5))
    bandit.save(tmp_path / "model")
    loaded = Bandit.load(tmp_path / "model")
    assert loaded.policy == policy
    np.testing.assert_array_equal(loaded.state, bandit.state)
    with pytest.raises(InvalidInput, match="half_life must be a finite number at least 1"):
        parse_policy("optimist:half_life=aut")


def test_learning_uses_no_random_numbers() -> None:
    policy, rng = Optimist(half_life="auto"), generator(1)
    before = rng.copy()
    _, learn, _, _, unpack, _ = policy_functions(policy.implementation(2))
    learn(policy.init(2), unpack(policy.packed_settings(2)), np.ones(2), 1.0, rng, LOGISTIC)
    np.testing.assert_array_equal(rng, before)
