"""The arms of a table's rows as sparse rows."""

import numpy as np

from glbandits.features.feature_map.combination import Combination, Entries
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows, joined_rows
from glbandits.records import Floats, Ints

PAIRS = 2**16
"""Arms of rows that are made at a time."""


def combined_arms(
    combination: Combination, arm: Entries, context: Entries, own: Entries, at_arms: Ints, at_rows: Ints
) -> SparseRows:
    """The features of an arm in a row, for each of several pairs of an arm and a row.

    Args:
        combination: how the parts become features.
        arm: features of arms; entry rows are counted as `at_arms` counts them.
        context: features of rows; entry rows are counted as `at_rows` counts them.
        own: features of the pairs.
        at_arms: the arm of each pair.
        at_rows: the row of each pair.
    """
    parts = []
    for start in range(0, len(at_rows), PAIRS):
        stop = min(start + PAIRS, len(at_rows))
        made = combination.combine_sparse(
            _taken(arm, at_arms[start:stop]),
            _taken(context, at_rows[start:stop]),
            _taken(own, np.arange(start, stop)),
            stop - start,
        )
        parts.append(as_sparse_rows(made, combination.dim, may_be_empty=True))
    return joined_rows(parts)


def _taken(entries: Entries, rows: Ints) -> Entries:
    """The entries of these rows, which are then counted from 0."""
    last = int(rows.max(initial=-1)) + 1
    pointers = np.searchsorted(entries.rows, np.arange(last + 1))
    found = SparseRows(pointers, entries.columns, entries.values).take(rows)
    return Entries(np.repeat(np.arange(len(rows)), np.diff(found.indptr)), found.indices, found.values)


def entries_of(array: Floats) -> Entries:
    """What is not 0 in an array, (n, width)."""
    at_rows, at_columns = np.nonzero(array)
    return Entries(at_rows, at_columns, array[at_rows, at_columns])
