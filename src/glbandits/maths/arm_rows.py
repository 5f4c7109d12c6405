"""Arms that are either a matrix or SparseRows: the functions by which one compiled loop serves both.

An entry point receives arms as a matrix or as the tuple `READ_ROWS`, and one arm as a vector or as the tuple
`READ_ROW`. `as_arms` and `as_arm` convert them to what policies take.
"""

from typing import Any, NamedTuple

from glbandits.common.arrays import Floats
from glbandits.common.errors import MAX_ABS
from glbandits.compilation.numba_support import by_type, jittable
from glbandits.maths.sparse_rows import (
    SparseRow,
    SparseRows,
    are_usable_rows,
    is_usable_row,
    nonzero_row,
    row_count,
    row_range,
)

ONLY_ROW = -1
"""The index in `READ_ROW` for arrays that must have a single row."""


class PayoffArms(NamedTuple):
    """Arms with the value of a reward and the cost of each, (K,). The payoff is value * reward - cost."""

    arms: Any
    values: Floats
    costs: Floats


@jittable
def usable(values: Floats) -> bool:
    """Whether every absolute value is at most MAX_ABS."""
    valid = True
    for value in values.flat:
        valid &= bool(abs(value) <= MAX_ABS)
    return valid


@jittable
def _as_rows(arrays: Any) -> SparseRows:
    return SparseRows(arrays[0], arrays[1], arrays[2])


@by_type(tuple, _as_rows)
def as_arms(arms: Any) -> Any:
    """Return arms as policies take them, from the argument of an entry point."""
    return arms


@jittable
def as_payoff_arms(offered: Any) -> PayoffArms:
    """Return arms with payoffs, from the argument of an entry point: a tuple of arms, values and costs."""
    return PayoffArms(as_arms(offered[0]), offered[1], offered[2])


@jittable
def _arms_of(offered: PayoffArms) -> Any:
    return offered.arms


@by_type(PayoffArms, _arms_of)
def plain_arms(offered: Any) -> Any:
    """Return the arms without their payoffs."""
    return offered


@by_type(SparseRows, are_usable_rows)
def are_usable_arms(arms: Any, dim: int) -> bool:
    """Whether there is at least one arm, and all of them are valid for compiled code."""
    return arms.shape[0] > 0 and arms.shape[1] == dim and usable(arms)


@jittable
def _are_usable_payoffs(offered: PayoffArms) -> bool:
    for value in offered.values:
        if not 0.0 <= value <= MAX_ABS:
            return False
    count = arm_count(offered.arms)
    return offered.values.shape[0] == count and offered.costs.shape[0] == count and usable(offered.costs)


@by_type(PayoffArms, _are_usable_payoffs)
def are_usable_payoffs(offered: Any) -> bool:  # noqa: ARG001
    """Whether every arm has a value of at least 0 and a cost. True without payoffs."""
    return True


@by_type(SparseRows, row_count)
def arm_count(arms: Any) -> int:
    """The number of arms."""
    return arms.shape[0]  # type: ignore[no-any-return]


@by_type(SparseRows, row_range)
def arm_range(arms: Any, start: int, end: int) -> Any:
    """Return the arms from `start` to `end`, exclusive."""
    return arms[start:end]


@jittable
def _payoff_range(offered: PayoffArms, start: int, end: int) -> PayoffArms:
    return PayoffArms(arm_range(offered.arms, start, end), offered.values[start:end], offered.costs[start:end])


@by_type(PayoffArms, _payoff_range)
def offered_range(offered: Any, start: int, end: int) -> Any:
    """Return the arms from `start` to `end`, exclusive, with their payoffs if there are any."""
    return arm_range(offered, start, end)


@by_type(SparseRows, nonzero_row)
def arm_at(arms: Any, index: int) -> Any:
    """Return one arm, as `learn` of a policy takes it."""
    return arms[index]


@jittable
def _is_usable_row(x: Any, dim: int) -> bool:
    if x[3] == ONLY_ROW:
        return x[0].shape[0] == 2 and is_usable_row(_as_rows(x), 0, dim)
    return is_usable_row(_as_rows(x), x[3], dim)


@by_type(tuple, _is_usable_row)
def is_usable_arm(x: Any, dim: int) -> bool:
    """Whether the argument of an entry point is a valid arm."""
    return x.shape[0] == dim and usable(x)


@jittable
def _as_row(x: Any) -> SparseRow:
    return nonzero_row(_as_rows(x), 0 if x[3] == ONLY_ROW else x[3])


@by_type(tuple, _as_row)
def as_arm(x: Any) -> Any:
    """Return an arm as `learn` of a policy takes it, from the argument of an entry point."""
    return x
