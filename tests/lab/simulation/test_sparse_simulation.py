from typing import Any

import numpy as np
import pytest
from scipy import sparse

from glbandits import Bandit, EpsilonGreedy, InvalidInput, LinUcb, Optimist, Policy, Uniform
from glbandits.lab import SparseHashed, SparseRounds, simulate

SMALL: dict[str, Any] = {"arms": 4, "nonzeros": 6, "names": 200}


@pytest.mark.parametrize("policy", [Optimist(), EpsilonGreedy(fit="online")], ids=lambda policy: policy.name)
def test_run_makes_the_choices_of_a_sparse_bandit(policy: Policy) -> None:
    problem, bandit, choices = SparseHashed(dim=2**24, **SMALL), Bandit(policy, 2**24, seed=3, sparse=True), []
    (chunk,) = problem.rounds(40, 3)
    cost = 0.0
    for t, start in enumerate(chunk.starts):
        arms = chunk.arms.rows(start, start + chunk.counts[t])
        arm = bandit.choose(arms)
        bandit.learn(arms.row(arm), problem.noise.reward(chunk.expected[t, arm], chunk.noise[t]))
        choices.append(arm)
        cost += chunk.expected[t].max() - chunk.expected[t, arm]
    result = simulate(policy, problem, 40, [3], jobs=1, compiled=False)
    assert result.choices is not None
    assert result.choices[0].tolist() == choices
    assert result.final_regret[0] == pytest.approx(cost, rel=1e-12)


def test_rounds_depend_only_on_the_seed() -> None:
    problem = SparseHashed(dim=2**20, **SMALL)
    (short,), (long,) = problem.rounds(10, 5), problem.rounds(30, 5)
    np.testing.assert_array_equal(long.arms.rows(0, 40).indices, short.arms.indices)
    np.testing.assert_array_equal(long.expected[:10], short.expected)
    (other,) = problem.rounds(10, 6)
    assert (other.expected != short.expected).all()


def test_hash_width_changes_no_reward() -> None:
    narrow, wide = (next(SparseHashed(dim=dim, **SMALL).rounds(10, 5)) for dim in (2**10, 2**30))
    np.testing.assert_array_equal(narrow.expected, wide.expected)
    assert narrow.arms.indices.max() < 2**10 < wide.arms.indices.max()


def test_arms_have_distinct_features_and_share_the_context() -> None:
    (chunk,) = SparseHashed(dim=2**20, **SMALL).rounds(50, 1)
    rows = chunk.arms.indices.reshape(50, 4, 6)
    assert (np.diff(rows, axis=2) > 0).all()
    shared = set.intersection(*(set(row.tolist()) for row in rows[0]))
    assert len(shared) >= 1


def test_policy_without_a_sparse_form_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="lin-ucb has no sparse form"):
        simulate(LinUcb(), SparseHashed(**SMALL), 10, [1], compiled=False)


def test_rounds_of_another_width_are_an_error() -> None:
    class Wrong(SparseHashed):
        def rounds(self, horizon: int, seed: int) -> Any:
            return SparseHashed(dim=2**20 + 1, **SMALL).rounds(horizon, seed)

    with pytest.raises(InvalidInput, match="10 rounds of 1048576 features, .* got 10 rounds of 1048577 features"):
        simulate(Uniform(), Wrong(dim=2**20, **SMALL), 10, [1], jobs=1, compiled=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [1, 1]}, "counts must be 3 arms in all; got 2"),
        ({"noise": [0.5]}, "noise must be finite numbers of shape"),
        ({"payoffs": [[0.1, np.nan], [0.1, 0.2]]}, "must be finite numbers"),
        ({"dim": 2}, "arms must have 2 columns"),
    ],
)
def test_invalid_rounds_are_an_error(change: Any, message: str) -> None:
    rounds: dict[str, Any] = {
        "arms": sparse.eye_array(3, format="csr"),
        "counts": [1, 2],
        "expected": [[0.1, 0.0], [0.2, 0.3]],
        "noise": [0.5, 0.5],
        "payoffs": [[0.1, 0.0], [0.2, 0.3]],
        "dim": 3,
    }
    assert SparseRounds(**rounds).best().tolist() == [0.1, 0.3]
    with pytest.raises(InvalidInput, match=message):
        SparseRounds(**rounds | change)


def test_too_few_names_are_an_error() -> None:
    with pytest.raises(InvalidInput, match="names must be 20 times nonzeros to dim"):
        SparseHashed(names=100)
