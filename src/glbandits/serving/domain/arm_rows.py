"""The features of the actions of a decision: a matrix, or sparse rows for the model of a sparse loop."""

from typing import TypeAlias

from glbandits.maths.sparse_rows import SparseRows
from glbandits.records import Floats, Ints

Arms: TypeAlias = Floats | SparseRows
"""A row for each action."""


def count_of(arms: Arms) -> int:
    """The number of actions."""
    return arms.row_count if isinstance(arms, SparseRows) else len(arms)


def rows_of(arms: Arms, indices: Ints) -> Arms:
    """The features of some actions."""
    if isinstance(arms, SparseRows):
        return arms.take(indices)
    some: Floats = arms[indices]
    return some


def row_of(arms: Arms, index: int) -> Arms:
    """The features of one action, as `Bandit.learn` takes them."""
    if isinstance(arms, SparseRows):
        return arms.row(index)
    one: Floats = arms[index]
    return one
