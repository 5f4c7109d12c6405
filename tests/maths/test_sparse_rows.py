import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from glbandits import InvalidInput, SparseRows
from glbandits.common.arrays import Floats
from glbandits.maths.sparse_rows import are_usable_rows, as_sparse_rows


def dense(rows: SparseRows, dim: int) -> Floats:
    matrix: Floats = sparse.csr_array((rows.values, rows.indices, rows.indptr), shape=(rows.row_count, dim)).toarray()
    return matrix


def rows_of(indptr: list[int], indices: list[int], values: list[float]) -> SparseRows:
    return SparseRows(np.array(indptr), np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3)), max_size=6), min_size=1, max_size=5))
def test_indices_are_sorted_and_duplicates_summed(rows: list[list[tuple[int, int]]]) -> None:
    expected = np.zeros((len(rows), 10))
    for row, entries in enumerate(rows):
        for index, value in entries:
            expected[row, index] += value
    flat = [entry for entries in rows for entry in entries]
    indptr = np.cumsum([0, *map(len, rows)]).tolist()
    converted = as_sparse_rows(rows_of(indptr, [i for i, _ in flat], [v for _, v in flat]), 10)
    np.testing.assert_array_equal(dense(converted, 10), expected)
    assert are_usable_rows(converted, 10)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.csr_matrix, np.array])
def test_all_matrix_types_are_accepted(make: type) -> None:
    matrix = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, -3.0]])
    converted = as_sparse_rows(make(matrix), 3)
    np.testing.assert_array_equal(dense(converted, 3), matrix)
    assert [part.dtype for part in converted] == [np.int64, np.int64, np.float64]


def test_input_is_not_changed() -> None:
    rows = rows_of([0, 3], [2, 1, 2], [1.0, 2.0, 3.0])
    as_sparse_rows(rows, 3)
    assert rows.indices.tolist() == [2, 1, 2]
    matrix = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3))
    assert as_sparse_rows(matrix, 3).values.tolist() == [3.0]
    assert matrix.nnz == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of([0, 1], [4], [1.0]), "indices from 0 to 3; got 4"),
        (rows_of([0, 1], [0], [np.nan]), "finite numbers no larger than 1e\\+50; got nan for feature 0"),
        (rows_of([0], [], []), "at least one row"),
        (SparseRows(np.array([0, 1]), np.array([0.5]), np.array([1.0])), "two vectors of integers"),
        (np.ones((2, 5)), r"4 columns, one for each feature; got shape \(2, 5\)"),
        (["text"], "array of numbers"),
    ],
)
def test_invalid_rows_are_an_error(rows: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        as_sparse_rows(rows, 4)


def test_invalid_rows_are_not_usable() -> None:
    invalid = [
        rows_of([0, 2], [1, 1], [1.0, 1.0]),
        rows_of([0, 2], [2, 1], [1.0, 1.0]),
        rows_of([0, 1], [9], [1.0]),
        rows_of([0, 1], [-1], [1.0]),
        rows_of([0, 5], [1], [1.0]),
        rows_of([0, 3, 1], [1], [1.0]),
        rows_of([-1, 1], [1], [1.0]),
        rows_of([0, 1], [1], [np.inf]),
        rows_of([0], [], []),
        rows_of([], [], []),
    ]
    assert not any(are_usable_rows(rows, 9) for rows in invalid)
    assert are_usable_rows(rows_of([0, 0, 2], [1, 8], [1.0, 0.0]), 9)


@pytest.mark.parametrize("index", [-2, -1, 2])
def test_row_outside_the_rows_is_an_error(index: int) -> None:
    with pytest.raises(IndexError, match="index"):
        rows_of([0, 1, 3], [0, 1, 2], [1.0, 2.0, 3.0]).row(index)
