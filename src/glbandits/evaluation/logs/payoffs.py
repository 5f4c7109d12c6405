"""Payoffs of a log: value * reward - cost, with the value of a reward and the cost of each arm of each row."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import types

from glbandits.bandit.entry_points import arms_type
from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.compilation.numba_support import READ_MATRIX, by_type, jittable
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, StreamedLog
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.maths.arm_rows import PayoffArms, arm_range
from glbandits.policies.contract import Policy


@dataclass(frozen=True, eq=False, repr=False)
class PayoffLog(StreamedLog):
    """All rows of another log, with a value and a cost for each arm."""

    log: Log
    values: Floats
    """(K,), in the order of the names of the schema."""
    costs: Floats

    @cached_property
    def schema(self) -> LogSchema:  # type: ignore[override]
        """What the rows have."""
        pairs = zip(self.values.tolist(), self.costs.tolist(), strict=True)
        return replace(self.log.schema, payoffs=True, fixed_payoffs=tuple(pairs))

    def for_workers(self) -> "PayoffLog":
        """Return the log in a form of which each worker reads its part without the rows before it."""
        return replace(self, log=self.log.for_workers())

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator[LoggedData]:
        """Yield rows in order, as `Log.blocks` says."""
        blocks = self.log.blocks(size, start=start, stop=stop, every=every, features=features)
        return (self.with_payoffs(block) for block in blocks)

    def with_payoffs(self, block: LoggedData) -> LoggedData:
        """Return rows of the log with the values and costs of their arms."""
        names = block.row_arm_names
        if names is None:
            return replace(block, values=self.values, costs=self.costs)
        values, costs = (np.append(each, 0.0)[names.indices] for each in (self.values, self.costs))  # index -1: no arm
        return replace(block, values=values, costs=costs)


def opened_log(log: Log) -> Log:
    """Return a log as its reader opened it, without payoffs of a table."""
    return log.log if isinstance(log, PayoffLog) else log


def payoff_range(
    log: Log, reward_range: tuple[float, float], declared: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Return the lowest and the highest possible payoff; `reward_range` if the log has no values.

    It reads the log once, unless a table has the values of all arms. Raises InvalidInput if all payoffs are the same,
    or if possible ones are outside of the declared range.
    """
    if not log.schema.payoffs:
        if declared is not None:
            raise InvalidInput("payoff_range needs a log with payoffs; got one without", field="payoff_range")
        return reward_range
    low, high = reward_range
    lowest, highest = math.inf, -math.inf
    for values, costs in _terms(log):
        if math.isfinite(low):
            lowest = min(lowest, float((values * low - costs).min()))
        if math.isfinite(high):
            highest = max(highest, float((values * high - costs).max()))
    lowest, highest = lowest if math.isfinite(low) else low, highest if math.isfinite(high) else high
    if not lowest < highest:
        raise InvalidInput("all values are 0 and all costs are the same, so every decision has the same payoff")
    if declared is None:
        return lowest, highest
    if not declared[0] <= lowest < highest <= declared[1]:
        raise InvalidInput(
            f"possible payoffs of the log are {lowest:g} to {highest:g}, outside of payoff_range, {declared}. State a "
            "wider range",
            field="payoff_range",
        )
    return declared


def _terms(log: Log) -> Iterator[tuple[Floats, Floats]]:
    """Yield the values and the costs of all arms, or of those of each block."""
    if log.schema.fixed_payoffs:
        values, costs = np.array(log.schema.fixed_payoffs).T
        yield values, costs
        return
    for block in log.blocks(features=False):
        assert block.values is not None
        assert block.costs is not None
        yield block.values[block.arm_mask], block.costs[block.arm_mask]


class LogPayoffs(NamedTuple):
    """The values and costs of a block, (n, max_arms), as compiled loops take them."""

    values: Floats
    costs: Floats

    @classmethod
    def of_block(cls, block: LoggedData) -> "LogPayoffs | None":
        """Return those of a block; None if it has none."""
        if block.values is None or block.costs is None:
            return None
        return cls(np.ascontiguousarray(block.values), np.ascontiguousarray(block.costs))

    @property
    def are_same(self) -> bool:
        """Whether all rows have the same values and costs."""
        return all(bool((each == each[:1]).all()) for each in self)


def rows_argument(arms: Any, payoffs: LogPayoffs | None, part: slice) -> Any:
    """Return the argument of a compiled loop over a part of the rows: the arms; with payoffs a tuple."""
    return arms if payoffs is None else (arms, payoffs.values[part], payoffs.costs[part])


def arms_argument(rows: Any) -> Any:
    """Return the arms of a `rows_argument`."""
    return rows[0] if isinstance(rows, tuple) and rows[1].ndim == 2 else rows


def rows_type(policy: type[Policy], payoffs: bool) -> Any:
    """Return the Numba type of `rows_argument`."""
    arms = arms_type(policy)
    return types.Tuple([arms, READ_MATRIX, READ_MATRIX]) if payoffs else arms  # type: ignore[no-untyped-call]


@jittable
def _with_payoffs(rows: PayoffArms, row: int, start: int, count: int) -> PayoffArms:
    return PayoffArms(arm_range(rows.arms, start, start + count), rows.values[row, :count], rows.costs[row, :count])


@by_type(PayoffArms, _with_payoffs)
def arms_of_row(rows: Any, row: int, start: int, count: int) -> Any:  # noqa: ARG001
    """Return the arms of a row of the log, as `choose` of a policy takes them."""
    return arm_range(rows, start, start + count)
