"""Payoffs of a log: the value of a reward and the cost of each arm, from a table with a row for each arm."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from glbandits.common.arrays import Floats
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.log_slice import PartOfLog
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, first_row_of


@dataclass(frozen=True, eq=False, repr=False)
class PayoffLog(PartOfLog):
    """All rows of another log, with a value and a cost for each arm."""

    values: Floats
    """(K,), in the order of `arm_names_of(log)`."""
    costs: Floats

    def __len__(self) -> int:
        return len(self.log)

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of at most `size` rows."""
        return (self.with_payoffs(block) for block in self.log.blocks(size))

    def with_payoffs(self, block: LoggedData) -> LoggedData:
        """Return rows of the log with the values and costs of their arms."""
        names = block.row_arm_names
        if names is None:
            return replace(block, values=self.values, costs=self.costs)
        values, costs = (np.append(each, 0.0)[names.indices] for each in (self.values, self.costs))  # index -1: no arm
        return replace(block, values=values, costs=costs)


def payoff_range(log: Log, reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return the lowest and the highest possible payoff; `reward_range` if the log has no values.

    It reads the log once. Raises InvalidInput if all payoffs are the same.
    """
    if first_row_of(log).values is None:
        return reward_range
    low, high = reward_range
    lowest, highest = math.inf, -math.inf
    for block in log.blocks():
        arm_mask = block.arm_mask
        if math.isfinite(low):
            lowest = min(lowest, float(block.expected_payoffs(low)[arm_mask].min()))
        if math.isfinite(high):
            highest = max(highest, float(block.expected_payoffs(high)[arm_mask].max()))
    lowest, highest = lowest if math.isfinite(low) else low, highest if math.isfinite(high) else high
    if not lowest < highest:
        raise InvalidInput("all values are 0 and all costs are the same, so every decision has the same payoff")
    return lowest, highest
