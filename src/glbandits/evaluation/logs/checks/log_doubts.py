"""LogDoubtSums: all checks of the rows of a log, in one pass over its blocks."""

from functools import cache
from typing import Any, ClassVar

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.evaluation.logs.arm_features import CrossedArms, RowArms
from glbandits.evaluation.logs.checks.changes import BLOCKS, last_change
from glbandits.evaluation.logs.checks.copies import CopySums, hash_rows
from glbandits.evaluation.logs.checks.leaks import MAX_COLUMNS, ContextSums
from glbandits.evaluation.logs.checks.order import OrderSums
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind, Withheld
from glbandits.evaluation.logs.schema import LogSchema
from glbandits.maths.online_statistics.mergeable import ALL, Mergeable, merged
from glbandits.maths.online_statistics.running_sums import RunningSums

LEAST_ROWS = 200
"""Rows below which a log is not checked: too few to tell."""
SHARES, MIXES, SIGNS = 16, 8, 1024
"""Number of groups of arms whose shares are compared over the rows, of mixtures of the context with the arm, and of
arms with random signs of their own. Powers of two, whose remainders are fast."""
NEIGHBOURS = 64
"""Consecutive rows whose contexts are compared with each other."""


class LogDoubtSums(Mergeable):
    """Accumulates what the checks need.

    Args:
        schema: of the log.
        first_row: index of the first row that is added.
    """

    rules: ClassVar = dict.fromkeys(("order", "copies", "_running", "_context"), merged) | {"_is_crossed": ALL}

    def __init__(self, schema: LogSchema, first_row: int = 0) -> None:
        self._schema, self._first_row = schema, first_row
        self.order, self.copies = OrderSums(), CopySums()
        self._running: RunningSums | None = None
        self._context: ContextSums | None = None
        self._is_crossed = True
        """Whether the context is apart from the arms in all rows, so that columns of it can be hidden."""

    def add(self, block: Any, payoffs: Floats) -> None:
        """Add the next rows, which are a `LoggedData`."""
        if not len(block):
            return
        arms, context = _arms(block), _context(block)
        self._is_crossed &= isinstance(block.arms, CrossedArms)
        propensities = np.ones(len(block)) if block.propensities is None else block.propensities
        if self._running is None:
            self._running = RunningSums(2 + SHARES + MIXES, BLOCKS, self._first_row)
            self._context = ContextSums(context.shape[1], self._schema.max_arms if self._schema.same_arms else 0)
        assert self._context is not None
        self._running.add(_changing(payoffs, propensities, arms, context))
        self.order.add(arms, payoffs, block.propensities)
        clusters = [] if block.clusters is None else [block.clusters]
        self.copies.add(hash_rows(arms, payoffs, propensities, context, *clusters))
        if context.shape[1]:
            self._context.usable &= _same_for_all_arms(block, self._context.usable)
            self._context.add(context, block.chosen, payoffs, propensities)

    def doubts(self) -> tuple[Doubt, ...]:
        """Return all doubts about the rows so far, and those that the reader of the log found."""
        found, clustered = list(self._schema.doubts), self._schema.clusters
        if self.order.rows < LEAST_ROWS or self._running is None or self._context is None:
            return tuple(found)
        found += self.order.doubts(clustered=clustered)
        found += self.copies.doubts(clustered=clustered)
        if self._schema.propensities:
            found += self._context.doubts(self._column_of, can_hide=self._is_crossed)
        if not found:  # a log in a wrong order, or with a part copied, changes too
            found += change_doubts(last_change(self._running), self.order.rows, "the logging policy or the rewards")
        return tuple({doubt.short: doubt for doubt in reversed(found)}.values())[::-1]

    def _column_of(self, feature: int) -> tuple[str, range]:
        """The name of the column of a feature of the context, and all features of this column."""
        spans = getattr(getattr(self._schema.feature_map, "context", None), "spans", {})
        named = ((f"column {name!r}", range(*span)) for name, span in spans.items() if feature in range(*span))
        return next(named, (f"feature {feature} of the context", range(feature, feature + 1)))


def change_doubts(since: int, rows: int, what: str) -> list[Doubt]:
    """Return the doubt about a change; none if `since`, the first row after it, is 0."""
    if not since:
        return []
    text = (
        f"{what} changed over these {rows:,} rows, the last time before the last {rows - since:,}. Their mean is not "
        "that of what runs today"
    )
    short = f"{what} changed over these rows"
    return [Doubt(kind=DoubtKind.CHANGED, text=text, short=short, withholds=Withheld.GAIN, since=since)]


def _arms(block: Any) -> Ints:
    """The chosen arms: their indices over the whole log, if they have names."""
    named = block.row_arm_names
    arms: Ints = block.chosen if named is None else named.indices[np.arange(len(block)), block.chosen]
    return arms


def _context(block: Any) -> Floats:
    """Features of the context, (n, width), or those of the first arm of each row; none if arms are sparse."""
    if isinstance(block.arms, CrossedArms):
        return block.arms.contexts[:, :MAX_COLUMNS]
    if isinstance(block.arms, RowArms):
        return block.arms.arms[:, 0, :MAX_COLUMNS]
    return np.zeros((len(block), 0))


def _same_for_all_arms(block: Any, usable: Any) -> Any:
    """Which features are the same for all arms of each row."""
    if isinstance(block.arms, CrossedArms):
        return usable
    if not block.arms.same_arms:
        return np.zeros_like(usable)
    features = block.arms.arms[:, :, : len(usable)]
    return (features == features[:, :1]).all(axis=(0, 1))


def _changing(payoffs: Floats, propensities: Floats, arms: Ints, context: Floats) -> list[Floats | Bools]:
    """The columns whose means are compared over the rows: rewards, propensities, arms, and arms by context."""
    group = np.bitwise_and(arms, SHARES - 1).astype(np.int8)
    signs, signs_of_arms = _signs(context.shape[1])
    mixes = _without_local_means(signs @ context.T)
    mixes *= signs_of_arms.take(np.bitwise_and(arms, SIGNS - 1), axis=1)
    return [payoffs, np.log(propensities), *(group == share for share in range(SHARES)), *mixes]


@cache
def _signs(width: int) -> tuple[Floats, Floats]:
    """Random signs of the features of the context, (MIXES, width), and of arms, (MIXES, SIGNS)."""
    rng = np.random.default_rng(0)
    signs, of_arms = (rng.choice([-1.0, 1.0], (count, MIXES)) for count in (width, SIGNS))
    return np.ascontiguousarray(signs.T), np.ascontiguousarray(of_arms.T)


def _without_local_means(values: Floats) -> Floats:
    """Subtract the means of `NEIGHBOURS` consecutive rows, because the context may change: time is often part of it.

    `values` is (mixes, n), and changed.
    """
    whole = values.shape[1] // NEIGHBOURS * NEIGHBOURS
    groups = values[:, :whole].reshape(len(values), -1, NEIGHBOURS)
    groups -= groups.mean(axis=2, keepdims=True)
    if whole < values.shape[1]:
        values[:, whole:] -= values[:, whole:].mean(axis=1, keepdims=True)
    return values
