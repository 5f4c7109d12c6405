"""Decisions of many rows at once, of every policy: they equal decisions in a loop."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from glbandits import Bandit, InvalidInput, Policy
from glbandits.common.arrays import Floats
from glbandits.maths.links import find_link
from glbandits.policies.contract.decisions import has_scores
from tests.laws.test_coefficients import learned
from tests.laws.test_every_policy import VARIANTS, named
from tests.laws.test_predictions import WITHOUT
from tests.laws.test_sparse_policies import FORMS

RNG = np.random.default_rng(5)
COUNTS = np.array([4, 1, 7, 2, 5] * 4)
ROWS = RNG.integers(-2, 3, (COUNTS.sum(), 3)) / 2  # many equal arms, so that ties are common
VALUES, COSTS = RNG.uniform(0, 3, len(ROWS)), RNG.uniform(-1, 1, len(ROWS))
ESTIMATING = {name: policy for name, policy in VARIANTS.items() if policy.name not in WITHOUT}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glbandits.bandit.arm_batch.BLOCK_NUMBERS", 40)


def one_by_one(bandit: Bandit, rows: Any = ROWS, *, explore: bool, payoffs: bool = False) -> list[int]:
    bounds, chosen = np.append(0, np.cumsum(COUNTS)), []
    for start, end in pairwise(bounds):
        given: Any = {"values": VALUES[start:end], "costs": COSTS[start:end]} if payoffs else {}
        chosen.append(bandit.choose(rows[start:end], explore=explore, **given))
    return chosen


@pytest.mark.parametrize("policy", named(ESTIMATING))
def test_batches_without_exploration_choose_the_best_prediction(policy: Policy) -> None:
    bandit = learned(policy, 60).copy()
    found = bandit.choose_batch(ROWS, COUNTS, explore=False)
    assert found.tolist() == one_by_one(bandit, explore=False)
    by_payoff = bandit.choose_batch(ROWS, COUNTS, values=VALUES, costs=COSTS, explore=False)
    assert by_payoff.tolist() == one_by_one(bandit, explore=False, payoffs=True)
    expected = bandit.predict(ROWS)
    np.testing.assert_array_equal(bandit.predict_batch(ROWS, COUNTS), expected)
    bounds = np.append(0, np.cumsum(COUNTS))
    for decision, (start, end) in enumerate(pairwise(bounds)):
        # Of equal scores the first wins. Rewards are rounded, so two scores may have equal ones.
        assert expected[start:end][found[decision]] == expected[start:end].max()
        payoffs = VALUES[start:end] * expected[start:end] - COSTS[start:end]
        assert by_payoff[decision] == payoffs.argmax()
    np.testing.assert_array_equal(bandit._rng, learned(policy, 60)._rng)


@pytest.mark.parametrize("policy", named(VARIANTS))
def test_batches_with_exploration_use_the_random_numbers_of_a_loop(policy: Policy) -> None:
    first, second = learned(policy, 60).copy(), learned(policy, 60).copy()
    assert first.choose_batch(ROWS, COUNTS).tolist() == one_by_one(second, explore=True)
    if has_scores(policy.implementation(3)):
        by_payoff = first.choose_batch(ROWS, COUNTS, values=VALUES, costs=COSTS)
        assert by_payoff.tolist() == one_by_one(second, explore=True, payoffs=True)
    np.testing.assert_array_equal(first._rng, second._rng)


@pytest.mark.parametrize("name", [name for name in FORMS if name != "uniform"])
def test_sparse_batches_equal_a_loop(name: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rows = sparse.csr_array(ROWS)
    bandit = Bandit(FORMS[name], dim=3, seed=1, sparse=True)
    bandit.learn_batch(rows, find_link(bandit.policy.link).mean(0.3) * np.ones(len(ROWS)))
    for explore in (False, True):
        other = bandit.copy()
        assert bandit.choose_batch(rows, COUNTS, explore=explore).tolist() == one_by_one(other, rows, explore=explore)


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_policies_without_an_estimate_refuse_not_to_explore(name: str) -> None:
    with pytest.raises(InvalidInput, match="has no estimate"):
        Bandit(name, dim=3).choose_batch(ROWS, COUNTS, explore=False)


def arrays_of(k: int) -> Floats:
    return RNG.normal(size=(6, k, 3))


def test_an_array_of_decisions_equals_its_rows() -> None:
    bandit, arms = learned(VARIANTS["optimist"], 60).copy(), arrays_of(4)
    found = bandit.choose_batch(arms, explore=False)
    assert found.tolist() == bandit.choose_batch(arms.reshape(-1, 3), 4, explore=False).tolist()
    assert bandit.predict_batch(arms).shape == (6, 4)
    values = np.array([1.0, 2.0, 0.0, 1.0])
    shared = bandit.choose_batch(arms, values=values, explore=False)
    each = bandit.choose_batch(arms, values=np.tile(values, (6, 1)), explore=False)
    assert shared.tolist() == each.tolist()
    assert bandit.choose_batch(arms[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("arms", "counts", "message"),
    [
        (np.zeros((4, 3)), None, r"shape \(n, K, 3\)"),
        (np.zeros((2, 2, 2)), None, r"shape \(n, K, 3\)"),
        (np.zeros((4, 3)), 3, "add up to the 4 rows"),
        (np.zeros((4, 3)), [4, 0], "at least 1"),
        (np.full((2, 2, 3), np.nan), None, "finite numbers"),
        (np.full((2, 2, 3), 1e60), None, "finite numbers"),
        ([{"age": 3}], None, "needs a feature map that lists the arms"),
    ],
)
def test_bad_batches_change_nothing(arms: Any, counts: Any, message: str) -> None:
    bandit = learned(VARIANTS["optimist"], 60).copy()
    with pytest.raises(InvalidInput, match=message):
        bandit.choose_batch(arms, counts)
    np.testing.assert_array_equal(bandit._rng, learned(VARIANTS["optimist"], 60)._rng)


def test_an_error_in_a_later_block_restores_the_generator() -> None:
    bandit, arms = learned(VARIANTS["optimist"], 60).copy(), arrays_of(10)
    arms[-1, 0, 0] = np.nan
    with pytest.raises(InvalidInput, match="finite numbers"):
        bandit.choose_batch(arms)
    np.testing.assert_array_equal(bandit._rng, learned(VARIANTS["optimist"], 60)._rng)
