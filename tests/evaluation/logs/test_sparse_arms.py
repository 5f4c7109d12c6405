from typing import Any

import numpy as np
import pytest
from scipy import sparse

from glbandits import InvalidInput, SparseRows
from glbandits.evaluation import LoggedData, SparseArms
from tests.evaluation.sparse_data import as_dense, dense_and_sparse


def test_slices_have_the_same_arms() -> None:
    dense, log = dense_and_sparse(30)
    for rows in (slice(3, 20), slice(None, None, 2), np.array([7, 7, 2]), np.arange(30) % 3 == 0):
        part = log[rows]
        assert isinstance(part.arms, SparseArms)
        np.testing.assert_array_equal(as_dense(part.arms.every_arm()), dense[rows].features()[dense[rows].arm_mask])
        chosen = dense[rows].features()[np.arange(len(part)), part.chosen]
        np.testing.assert_array_equal(as_dense(part.arms.chosen(part.chosen)), chosen)


def test_rows_can_share_arms() -> None:
    names = SparseArms(sparse.eye_array(3, format="csr"), np.full(4, 3), starts=np.zeros(4, dtype=int))
    np.testing.assert_array_equal(as_dense(names.every_arm(), 3), np.tile(np.eye(3), (4, 1)))


def test_values_of_one_index_are_added() -> None:
    rows = SparseRows(np.array([0, 3, 3]), np.array([5, 2, 5]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(
        as_dense(SparseArms(rows, np.array([2]), dim=6).every_arm()), [[0, 0, 2, 0, 0, 4], [0] * 6]
    )


def test_probabilities_beyond_the_arms_of_a_row_are_refused() -> None:
    arms = SparseArms(sparse.eye_array(3, format="csr"), np.array([1, 2]))
    with pytest.raises(InvalidInput, match="must be at least 0, and 0 beyond the arms"):
        LoggedData(
            chosen=np.zeros(2, dtype=np.int64), rewards=np.zeros(2), probabilities=np.full((2, 2), 0.5), arms=arms
        )


@pytest.mark.parametrize(
    ("counts", "settings", "message"),
    [
        ([2, 2], {}, "counts must sum to the number of arms, 5; got 4"),
        ([5, 0], {}, "at least one arm each"),
        ([2, 3], {"starts": [0]}, "counts and starts must have one entry for each row"),
    ],
)
def test_invalid_counts_are_rejected(counts: Any, settings: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SparseArms(sparse.eye_array(5, format="csr"), counts, **settings)


def test_sparse_rows_need_the_number_of_features() -> None:
    with pytest.raises(InvalidInput, match="SparseArms needs dim, the number of features"):
        SparseArms(SparseRows(np.array([0, 1]), np.array([5]), np.ones(1)), np.ones(1, dtype=int))
