"""Whether a log is sorted by its arms or rewards: then its order is not that of the decisions."""

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind
from glbandits.maths.online_statistics.mergeable import Mergeable

MAX_VALUES = 256
"""Number of distinct rewards that are counted; if there are more, the most frequent ones."""
LEAST_EXPECTED = 25.0
"""The number of expected changes from which on the order is judged."""
FAR_TOO_FEW = 1.0 / 3.0
"""Fewer than this share of the expected changes mean that the log is sorted."""


class OrderSums(Mergeable):
    """Counts how often the arm and the reward change from one row to the next.

    If propensities are right, the arm of a row repeats the one before it at most about as often as the sum of the
    propensities says, also if the logging policy learns. The reward rises in about as many rows as it falls.
    """

    def __init__(self) -> None:
        self.rows, self.arm_changes, self.expected_arm_changes = 0, 0, 0.0
        self.rises, self.falls = 0, 0
        self.values: dict[float, int] = {}
        """The number of rows of each reward."""
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None

    def add(self, arms: Ints, rewards: Floats, propensities: Floats | None) -> None:
        """Add the next rows."""
        if not len(arms):
            return
        if self._last is not None:
            self._count_step(self._last, (int(arms[0]), float(rewards[0])))
        self._first = self._first or (int(arms[0]), float(rewards[0]))
        self._last = int(arms[-1]), float(rewards[-1])
        self.rows += len(arms)
        self.arm_changes += int((arms[1:] != arms[:-1]).sum())
        self.rises += int((rewards[1:] > rewards[:-1]).sum())
        self.falls += int((rewards[1:] < rewards[:-1]).sum())
        if propensities is not None:
            self.expected_arm_changes += float((1.0 - propensities).sum())
        self._add_values(dict(zip(*(each.tolist() for each in np.unique(rewards, return_counts=True)), strict=True)))

    def merge(self, later: "OrderSums") -> None:
        """Add the rows of the next part."""
        if later._first is None:
            return
        if self._last is not None:
            self._count_step(self._last, later._first)
        self._first, self._last = self._first or later._first, later._last
        for name in ("rows", "arm_changes", "expected_arm_changes", "rises", "falls"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self._add_values(later.values)

    def _count_step(self, before: tuple[int, float], after: tuple[int, float]) -> None:
        self.arm_changes += before[0] != after[0]
        self.rises += before[1] < after[1]
        self.falls += before[1] > after[1]

    def _add_values(self, counts: dict[float, int]) -> None:
        for value, count in counts.items():
            self.values[value] = self.values.get(value, 0) + count
        if len(self.values) > MAX_VALUES:
            most = sorted(self.values.items(), key=lambda each: (-each[1], each[0]))[:MAX_VALUES]
            self.values = dict(most)

    def doubts(self, *, clustered: bool) -> list[Doubt]:
        """Return what is wrong with the order of the rows.

        Args:
            clustered: whether rows have clusters, whose rows may have the same arm.
        """
        if not self.rows:
            return []
        if len(self.values) == 1:
            [value] = self.values
            text = f"all {self.rows:,} evaluated rewards are {value:g}. If the log is sorted by reward, name its time"
            return [_doubt(text, "all rewards are equal")]
        found = []
        repeated = sum((count / self.rows) ** 2 for count in self.values.values())
        expected = 0.5 * self.rows * (1.0 - repeated)
        if _are_too_few(min(self.rises, self.falls), expected):
            steps = f"the reward rises {self.rises:,} and falls {self.falls:,} times from one row to the next"
            found.append(_doubt(f"the log is sorted by reward: {steps}", "the log is sorted by reward"))
        if not clustered and _are_too_few(self.arm_changes, self.expected_arm_changes):
            steps = f"the arm changes {self.arm_changes:,} times from one row to the next"
            expected_steps = f"about {self.expected_arm_changes:,.0f} times by the propensities"
            found.append(_doubt(f"the log is sorted by arm: {steps}, {expected_steps}", "the log is sorted by arm"))
        return found


def _are_too_few(changes: int, expected: float) -> bool:
    return expected >= LEAST_EXPECTED and changes < FAR_TOO_FEW * expected


def _doubt(text: str, short: str) -> Doubt:
    advice = "Put the rows in the order of the decisions (--time, in Python Columns(time=...))"
    return Doubt(kind=DoubtKind.ORDER, text=f"{text}. {advice}", short=short)
