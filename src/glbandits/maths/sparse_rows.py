"""SparseRows: arms in compressed sparse row (CSR) format, the input of a sparse Bandit."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import MAX_ABS, InvalidInput
from glbandits.compilation.numba_support import jittable


class SparseRows(NamedTuple):
    """Rows of features in CSR format. Only nonzero features have to be stored.

    >>> rows = SparseRows(np.array([0, 2, 3]), np.array([1, 4, 0]), np.array([0.5, 1.0, 2.0]))
    >>> rows.row_count
    2
    >>> rows.row(1).indices
    array([0])
    """

    indptr: Ints
    """(rows + 1,). Row i is the slice indptr[i] : indptr[i + 1] of the other arrays."""
    indices: Ints
    """The index of each stored feature: sorted and distinct in each row."""
    values: Floats
    """The value of each stored feature."""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    def row(self, index: int) -> "SparseRows":
        """Return one row, as `Bandit.learn` takes it. Its arrays are views."""
        if index < 0:
            raise IndexError(f"index must be from 0 to {self.row_count - 1}; got {index}")
        indptr, indices, values = self
        start, end = indptr.item(index), indptr.item(index + 1)
        # Equivalent to SparseRows(...) in three quarters of the time. Every reward needs a row.
        return tuple.__new__(SparseRows, (_pointers(end - start), indices[start:end], values[start:end]))

    def rows(self, start: int, end: int) -> "SparseRows":
        """Return the rows from `start` to `end`, exclusive. `indices` and `values` are views."""
        first, last = self.indptr.item(start), self.indptr.item(end)
        return SparseRows(self.indptr[start : end + 1] - first, self.indices[first:last], self.values[first:last])

    def take(self, rows: Ints) -> "SparseRows":
        """Return copies of these rows, in this order."""
        starts, sizes = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        positions = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        return SparseRows(indptr, self.indices[positions], self.values[positions])

    def row_sums(self, terms: Floats) -> Floats:
        """Return the sum over each row of `terms`, one number for each stored feature."""
        rows = np.repeat(np.arange(self.row_count), np.diff(self.indptr))
        return np.asarray(np.bincount(rows, terms, self.row_count), dtype=np.float64)


class SparseRow(NamedTuple):
    """The features of one arm, as `learn` of a sparse form takes them: sorted, without values of 0."""

    indices: Ints
    values: Floats


@lru_cache(1024)
def _pointers(size: int) -> Ints:
    """Return the indptr of a single row with `size` features."""
    pointers = np.array([0, size])
    pointers.flags.writeable = False
    return pointers


def joined_rows(parts: Sequence[SparseRows]) -> SparseRows:
    """Concatenate the rows of several parts."""
    sizes = np.concatenate([np.zeros(1, dtype=np.int64), *(np.diff(part.indptr) for part in parts)])
    indices = np.concatenate([np.zeros(0, dtype=np.int64), *(part.indices for part in parts)])
    return SparseRows(np.cumsum(sizes), indices, np.concatenate([np.zeros(0), *(part.values for part in parts)]))


@jittable
def are_usable_rows(rows: SparseRows, dim: int) -> bool:
    """Whether the rows are valid for compiled code.

    They are if there is at least one row, indptr is valid, indices are sorted, distinct and below dim, and absolute
    values are at most MAX_ABS.
    """
    indptr, indices, values = rows
    count, size = indptr.shape[0] - 1, indices.shape[0]
    if count < 1 or values.shape[0] != size or indptr[0] != 0 or indptr[count] != size:
        return False
    for row in range(count):
        if indptr[row + 1] < indptr[row] or indptr[row + 1] > size:
            return False
    # These loops have no branches, so that the compiler vectorises them: four times as fast.
    descents, unusable = 0, 0
    for k in range(size - 1):
        descents += 1 if indices[k] >= indices[k + 1] else 0
    for k in range(size):
        unusable += 0 if abs(values[k]) <= MAX_ABS else 1
    for row in range(count):
        start, end = indptr[row], indptr[row + 1]
        if start < end and (indices[start] < 0 or indices[end - 1] >= dim):  # the smallest and the largest, if sorted
            return False
        if start < end < size and indices[end - 1] >= indices[end]:  # a descent between two rows is valid
            descents -= 1
    return descents == 0 and unusable == 0


@jittable
def is_usable_row(rows: SparseRows, row: int, dim: int) -> bool:
    """Whether one row is valid for compiled code. Reads no other row."""
    indptr, indices, values = rows
    if not 0 <= row < indptr.shape[0] - 1 or indices.shape[0] != values.shape[0]:
        return False
    start, end, previous = indptr[row], indptr[row + 1], -1
    if not 0 <= start <= end <= indices.shape[0]:
        return False
    for k in range(start, end):
        if not previous < indices[k] < dim or not abs(values[k]) <= MAX_ABS:
            return False
        previous = indices[k]
    return True


@jittable
def row_count(rows: SparseRows) -> int:
    """The number of rows. Compiled code cannot read the property."""
    return rows.indptr.shape[0] - 1  # type: ignore[no-any-return]


@jittable
def row_range(rows: SparseRows, start: int, end: int) -> SparseRows:
    """Return the rows from `start` to `end`, exclusive. Copies nothing; the first pointer need not be 0."""
    return SparseRows(rows.indptr[start : end + 1], rows.indices, rows.values)


@jittable
def nonzero_row(rows: SparseRows, row: int) -> SparseRow:
    """Return a copy of one row, without values of 0."""
    indptr, indices, values = rows
    start, end, count = indptr[row], indptr[row + 1], 0
    for k in range(start, end):
        count += 1 if values[k] != 0.0 else 0
    nonzero_indices, nonzero_values, i = np.empty(count, dtype=np.int64), np.empty(count), 0
    for k in range(start, end):
        if values[k] != 0.0:
            nonzero_indices[i], nonzero_values[i] = indices[k], values[k]
            i += 1
    return SparseRow(nonzero_indices, nonzero_values)


def as_sparse_rows(rows: Any, dim: int, name: str = "arms", *, may_be_empty: bool = False) -> SparseRows:
    """Convert rows to SparseRows with sorted, distinct indices and float64 values.

    Values of the same index in a row are added up.

    Args:
        rows: SparseRows, a scipy.sparse matrix or array, or a dense array (n, dim).
        dim: the number of features.
        name: the name of the rows in error messages.
        may_be_empty: whether zero rows are valid.

    Raises:
        InvalidInput: if an index is out of range, a value is not finite, or there are no rows and `may_be_empty` is
            False.

    >>> as_sparse_rows([[0.0, 0.5], [2.0, 0.0]], dim=2)
    SparseRows(indptr=array([0, 1, 2]), indices=array([1, 0]), values=array([0.5, 2. ]))
    """
    if isinstance(rows, SparseRows):
        converted = _from_arrays(rows, name)
    elif hasattr(rows, "tocsr"):
        _check_width(rows.shape, dim, name)
        converted = _from_scipy(rows)
    else:
        converted = _from_dense(rows, dim, name)
    if converted.row_count < 1 and not may_be_empty:
        raise InvalidInput(f"{name} must have at least one row; got none")
    _check_entries(converted, dim, name)
    return converted if _are_sorted(converted) else _sort_and_merge(converted)


def _from_arrays(rows: SparseRows, name: str) -> SparseRows:
    parts = [np.asarray(part) for part in rows]
    indptr, indices, values = parts
    if any(part.ndim != 1 for part in parts) or indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        types = ", ".join(f"{part.dtype} {part.shape}" for part in parts)
        raise InvalidInput(f"{name} must be SparseRows of two vectors of integers and one of numbers; got {types}")
    if values.dtype.kind not in "biuf" or indices.size != values.size:
        raise InvalidInput(
            f"{name} must have a number for each index; got {indices.size} indices and {values.size} values of type "
            f"{values.dtype}"
        )
    checked = SparseRows(_vector(indptr, np.int64), _vector(indices, np.int64), _vector(values, np.float64))
    pointers = checked.indptr
    if pointers.size == 0 or pointers[0] != 0 or pointers[-1] != indices.size or (np.diff(pointers) < 0).any():
        raise InvalidInput(f"{name}.indptr must increase from 0 to {indices.size}, the number of indices; got {indptr}")
    return checked


def _from_scipy(rows: Any) -> SparseRows:
    csr = rows.tocsr() if rows.ndim == 2 else rows.reshape(1, -1).tocsr()
    if csr.dtype.kind not in "biuf":
        raise InvalidInput(f"a sparse matrix must hold plain numbers; got {csr.dtype}")
    return SparseRows(_vector(csr.indptr, np.int64), _vector(csr.indices, np.int64), _vector(csr.data, np.float64))


def _from_dense(rows: Any, dim: int, name: str) -> SparseRows:
    try:
        dense = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} must be SparseRows, scipy.sparse rows or an array of numbers: {error}") from None
    _check_width(dense.shape, dim, name)
    row_of_entry, indices = np.nonzero(dense)
    indptr = np.searchsorted(row_of_entry, np.arange(len(dense) + 1))
    return SparseRows(_vector(indptr, np.int64), _vector(indices, np.int64), dense[row_of_entry, indices])


def _vector(values: Any, dtype: Any) -> Any:
    return np.ascontiguousarray(values, dtype=dtype)


def _check_width(shape: tuple[int, ...], dim: int, name: str) -> None:
    if not 1 <= len(shape) <= 2 or shape[-1] != dim:
        raise InvalidInput(f"{name} must have {dim} columns, one for each feature; got shape {shape}")


def _check_entries(rows: SparseRows, dim: int, name: str) -> None:
    outside = (rows.indices < 0) | (rows.indices >= dim)
    if outside.any():
        raise InvalidInput(f"{name} must have indices from 0 to {dim - 1}; got {rows.indices[outside][0]}")
    invalid = ~(np.abs(rows.values) <= MAX_ABS)
    if invalid.any():
        raise InvalidInput(
            f"{name} must hold finite numbers no larger than {MAX_ABS:g}; got {rows.values[invalid][0]} for feature "
            f"{rows.indices[invalid][0]}. Fill in or drop missing values"
        )


def _are_sorted(rows: SparseRows) -> bool:
    increases = np.diff(rows.indices) > 0
    starts = rows.indptr[1:-1]
    increases[starts[(starts > 0) & (starts < rows.indices.size)] - 1] = True  # the order restarts with each row
    return bool(increases.all())


def _sort_and_merge(rows: SparseRows) -> SparseRows:
    from scipy.sparse import csr_array  # here, because the import takes 0.1 s and is rarely needed

    width = int(rows.indices.max()) + 1
    csr = csr_array((rows.values.copy(), rows.indices.copy(), rows.indptr.copy()), shape=(rows.row_count, width))
    csr.sum_duplicates()
    return SparseRows(_vector(csr.indptr, np.int64), _vector(csr.indices, np.int64), _vector(csr.data, np.float64))
