"""Logs of slates from tables with a row for each slot, and from logs of decisions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from glbandits.errors import InvalidInput
from glbandits.evaluation.columns import check_present
from glbandits.evaluation.logged_data import Log
from glbandits.evaluation.series import numbers
from glbandits.evaluation.slates import SlateLog
from glbandits.evaluation.tables import as_frame
from glbandits.evaluation.targets import AnyTarget, as_target, checked_probabilities
from glbandits.records import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class SlateColumns:
    """Names of the columns of a table with a row for each slot of each slate."""

    slate: str = "slate"
    """Rows with the same value here belong to the same slate. Of any type."""
    slot: str = "slot"
    """Numbers, or texts in the order in which they first appear."""
    arm: str = "arm"
    propensity: str = "propensity"
    reward: str = "reward"
    of_slate: bool = False
    """Whether the reward is that of the slate, repeated in all its rows."""


def read_slates(table: Any, columns: SlateColumns | None = None) -> SlateLog:
    """A log of slates from a data frame of polars or pandas, or from a dict of columns.

    >>> table = {
    ...     "slate": ["u", "u", "v"], "slot": [1, 2, 1], "arm": ["a", "b", "b"],
    ...     "propensity": [0.5, 0.25, 0.5], "reward": [1, 0, 1],
    ... }
    >>> log = read_slates(table)
    >>> log.propensities.tolist(), log.filled.tolist()
    ([[0.5, 0.25], [0.5, 1.0]], [[True, True], [True, False]])
    """
    names = columns or SlateColumns()
    wanted = [names.slate, names.slot, names.arm, names.propensity, names.reward]
    frame = as_frame(table, lambda name: name in wanted)
    check_present(wanted, frame.columns, mend="Name them with SlateColumns(slate=..., slot=..., ...)")
    if not len(frame):
        raise InvalidInput("the table has no rows; a log needs at least one slate")
    index = _codes(frame[names.slate]), _codes(frame[names.slot], ordered=frame[names.slot].dtype.is_numeric())
    rewards = numbers(frame[names.reward])
    arms = frame[names.arm].cast(pl.String).to_numpy().astype(np.str_)
    log = _slates(index, numbers(frame[names.propensity]), rewards, arms)
    return _with_slate_rewards(log, index[0], rewards) if names.of_slate else log


def slates_of_decisions(log: Log, target: AnyTarget) -> tuple[SlateLog, Floats]:
    """Slates of a log with a row for each slot, and the target's probabilities of the logged arms, (n, L).

    Rows of the same cluster are the slots of a slate, in their order. An export of multi-slot events is such a log:
    `read_parquet(folder, Columns(features="features", cluster="event_id"))`.
    """
    play, first = as_target(target, log.arm_names), 0
    parts = []
    for block in log.blocks():
        if block.clusters is None or block.propensities is None:
            raise InvalidInput("slates need propensities and clusters: the rows of a slate have the same cluster")
        probabilities = checked_probabilities(play, block, first)[np.arange(len(block)), block.chosen]
        parts.append((block.clusters, block.propensities, block.rewards, probabilities))
        first += len(block)
    if not parts:
        raise InvalidInput("the log has no rows")
    clusters, propensities, rewards, probabilities = (np.concatenate(part) for part in zip(*parts, strict=True))
    slates = _codes(pl.Series(clusters))
    order = pl.Series(slates).to_frame("slate").select(pl.int_range(pl.len()).over("slate")).to_series()
    index = slates, order.to_numpy().astype(np.int64)
    return _slates(index, propensities, rewards, None), _at(index, probabilities, 1.0)


def _slates(index: tuple[Ints, Ints], propensities: Floats, rewards: Floats, arms: NDArray[np.str_] | None) -> SlateLog:
    filled = np.zeros((index[0].max() + 1, index[1].max() + 1), dtype=np.int64)
    np.add.at(filled, index, 1)
    if filled.max() > 1:
        slate, slot = (int(each) for each in np.argwhere(filled > 1)[0])
        row = int(np.flatnonzero((index[0] == slate) & (index[1] == slot))[1])
        raise InvalidInput(f"a slate must have each slot once; row {row} has the slate and slot of an earlier row")
    return SlateLog(
        propensities=_at(index, propensities, 1.0),
        rewards=_at(index, rewards, 0.0),
        filled=filled.astype(np.bool_),
        arms=None if arms is None else _at(index, arms, ""),
    )


def _at(index: tuple[Ints, Ints], values: NDArray[Any], empty: float | str) -> NDArray[Any]:
    """The values at their slates and slots, (n, L); `empty` where a slot is not filled."""
    table = np.full((index[0].max() + 1, index[1].max() + 1), empty, dtype=values.dtype)
    table[index] = values
    return table


def _with_slate_rewards(log: SlateLog, slates: Ints, rewards: Floats) -> SlateLog:
    of_slates = np.zeros(len(log))
    of_slates[slates] = rewards
    different = of_slates[slates] != rewards
    if different.any():
        row = int(np.argmax(different))
        raise InvalidInput(
            f"with of_slate=True all rows of a slate must have the same reward; row {row} has {rewards[row]}, another "
            f"row of its slate {of_slates[slates[row]]}"
        )
    return SlateLog(propensities=log.propensities, rewards=of_slates, filled=log.filled, arms=log.arms)


def _codes(series: pl.Series, *, ordered: bool = False) -> Ints:
    """The index of each value among the different ones: in the order in which they first appear, or sorted."""
    if series.null_count():
        raise InvalidInput(f"column {series.name!r} has missing values. Fill in or drop such rows")
    different = series.unique(maintain_order=True)
    table = (different.sort() if ordered else different).alias("value").to_frame().with_row_index()
    found = series.alias("value").to_frame().join(table, on="value", how="left", maintain_order="left")
    return found["index"].to_numpy().astype(np.int64)
