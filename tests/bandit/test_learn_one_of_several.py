"""`Bandit.learn` with several arms and the row of the one whose reward it is."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from glbandits import Bandit, InvalidInput, Optimist, SparseRows
from glbandits.maths.sparse_rows import as_sparse_rows

ARMS = np.random.default_rng(3).normal(size=(4, 6)) * (np.random.default_rng(4).random((4, 6)) < 0.5)


def state_after(arms: Any, reward: float, *, sparse: bool, arm: int | None = None) -> Any:
    bandit = Bandit(Optimist(link="identity"), dim=6, seed=1, sparse=sparse)
    bandit.learn(arms, reward, arm=arm)
    return bandit.state


@pytest.mark.parametrize("arms", [ARMS, ARMS.tolist(), np.asfortranarray(ARMS)], ids=["array", "list", "columns"])
@pytest.mark.parametrize("arm", [0, 3, np.int64(2)])
def test_a_dense_row_is_learned_as_if_given_alone(arms: Any, arm: int) -> None:
    assert np.array_equal(state_after(arms, 0.5, sparse=False, arm=arm), state_after(ARMS[int(arm)], 0.5, sparse=False))


@pytest.mark.parametrize("kind", [lambda rows: as_sparse_rows(rows, 6), csr_array, np.array])
@pytest.mark.parametrize("arm", [0, 3, np.int64(2)])
def test_a_sparse_row_is_learned_as_if_given_alone(kind: Any, arm: int) -> None:
    expected = state_after(as_sparse_rows(ARMS, 6).row(int(arm)), 0.5, sparse=True)
    assert np.array_equal(state_after(kind(ARMS), 0.5, sparse=True, arm=arm), expected)


def test_indices_of_any_integer_type_are_learned() -> None:
    rows = as_sparse_rows(ARMS, 6)
    narrow = SparseRows(rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.values)
    expected = state_after(rows, 0.5, sparse=True, arm=1)
    assert np.array_equal(state_after(narrow, 0.5, sparse=True, arm=1), expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("arm", [4, -1, 1.5, True, "0"])
def test_an_arm_that_is_no_row_is_refused(sparse: bool, arm: Any) -> None:
    bandit = Bandit(Optimist(link="identity"), dim=6, seed=1, sparse=sparse)
    before = bandit.state
    with pytest.raises(InvalidInput, match="arm must be a whole number"):
        bandit.learn(as_sparse_rows(ARMS, 6) if sparse else ARMS, 0.5, arm=arm)
    assert np.array_equal(bandit.state, before)


def test_several_sparse_rows_without_arm_are_refused() -> None:
    bandit = Bandit(Optimist(link="identity"), dim=6, seed=1, sparse=True)
    with pytest.raises(InvalidInput, match="x must have 1 rows"):
        bandit.learn(as_sparse_rows(ARMS, 6), 0.5)


@pytest.mark.parametrize(("indptr", "arm"), [([0, 9, 2], 0), ([0, 9, 2], 1), ([-5, 1, 2], 0), ([0, 2, 1], 1)])
def test_pointers_outside_the_rows_are_refused(indptr: list[int], arm: int) -> None:
    bandit = Bandit(Optimist(link="identity"), dim=6, seed=1, sparse=True)
    rows = SparseRows(np.array(indptr), np.array([0, 1]), np.ones(2))
    with pytest.raises(InvalidInput, match="indptr must increase"):
        bandit.learn(rows, 0.5, arm=arm)
