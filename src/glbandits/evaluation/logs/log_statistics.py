"""The description and the overlap of a log, from its blocks without features."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.checks.log_doubts import LogDoubtSums
from glbandits.evaluation.logs.description import ColumnSummary, DescriptionSums, LogDescription
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.evaluation.logs.overlap import Overlap, OverlapSums


def describe_blocks(
    log: Any,
    source: str = "LOG",
    *,
    columns: Sequence[ColumnSummary] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **more: Any,
) -> LogDescription:
    """Describe a log that can be read, in one pass.

    Args:
        log: any log.
        source: its address, for the next command.
        columns: of its table; by default those of its feature map.
        progress: called with the number of rows read and of all rows.
        more: other arguments of `DescriptionSums.description`.
    """
    sums, names = DescriptionSums(), log.schema.names
    for block in log.blocks(features=False):
        chosen = block.chosen
        if block.row_arm_names is not None:
            chosen = block.row_arm_names.indices[np.arange(len(block)), chosen]
        sums.same_arms &= block.arms.same_arms
        known = names or tuple(map(str, range(block.arms.max_arms)))
        sums.add(pl.Series(known, dtype=pl.String).gather(chosen), block.rewards, block.propensities)
        if block.propensities is not None:
            _add_overlap(sums.overlap, block)
        if progress is not None:
            progress(sums.rows, len(log))
    found = _columns_of_map(log) if columns is None else columns
    never = tuple(name for name in names if name not in sums.arms)
    described = sums.description(source, columns=found, never_chosen=never, **more)
    return replace(described, doubts=doubts_of(log))


def doubts_of(log: Any) -> tuple[Doubt, ...]:
    """Return all doubts about a log, in a pass over its rows; none if its features cannot be read."""
    sums = LogDoubtSums(log.schema)
    try:
        for block in log.blocks():
            sums.add(block, block.payoffs)
    except InvalidInput:
        return ()
    return sums.doubts()


def _columns_of_map(log: Any) -> list[ColumnSummary]:
    features: Any = log.feature_map
    kinds: Mapping[str, Any] = getattr(getattr(features, "context", None), "kinds", {})
    shares = getattr(features, "missing_shares", {})
    return [
        ColumnSummary(name=name, kind=kind.kind, missing=shares.get(name, 0.0), values=f"{kind.width} features")
        for name, kind in kinds.items()
    ]


def _add_overlap(sums: OverlapSums, block: Any) -> None:
    sums.add(block.propensities)
    sums.estimated = block.estimated
    if block.probabilities is not None:
        sums.add_probabilities(block.probabilities, block.propensities, int(block.arms.counts.sum()))


def overlap_of(log: Any, least_estimate: float = 0.0) -> Overlap:
    """Return the overlap statistics of a log. Raises InvalidInput if it has no rows or no propensities.

    Args:
        log: with propensities.
        least_estimate: the bound to which smaller estimates of propensities were raised; 0 without one.

    >>> from glbandits.evaluation import Columns, read_table
    >>> log = read_table({"arm": ["a", "b"], "reward": [0, 1], "propensity": [0.995, 0.005]}, Columns())
    >>> overlap_of(log).warnings()
    ['50.0% of rows have a propensity below 0.01, the smallest is 0.005: estimates will depend on few rows']
    """
    sums, counts = OverlapSums(least_estimate), np.zeros(0, dtype=np.int64)
    for block in log.blocks(features=False):
        if block.propensities is None:
            raise InvalidInput("the log has no propensities. Call estimate_propensities(log) first")
        _add_overlap(sums, block)
        if block.arms.same_arms:
            chosen = np.bincount(block.chosen, minlength=block.arms.max_arms)
            counts = chosen if not len(counts) else counts + chosen
    if not sums.rows:
        raise InvalidInput("the log has no rows")
    names = log.arm_names or tuple(map(str, range(len(counts))))
    return sums.overlap(tuple(name for name, count in zip(names, counts.tolist(), strict=True) if not count))
