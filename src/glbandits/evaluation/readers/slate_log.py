"""`SlateLog`, decisions that fill several slots at once, and its reader `read_slates`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.display.displayed import Displayed
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import check_array
from glbandits.evaluation.readers.column_values import float_values, reward_values
from glbandits.evaluation.readers.table_log import as_frame
from glbandits.features.table_columns import check_present

SlateTarget: TypeAlias = Floats | Sequence[Sequence[float]] | Callable[["SlateLog"], Floats]
"""Target probability of the logged arm of each slot, given earlier slots, (n, L); or a function of the log."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SlateLog(Displayed):
    """A log of slates: the propensity of the arm in each slot, and the rewards.

    >>> log = SlateLog(propensities=[[0.5, 0.25], [0.5, 0.5]], rewards=[[1, 0], [0, 1]])
    >>> log
    <SlateLog: slates 2, slots 2, rewards of slots>
    """

    propensities: Floats
    """Probability under the logging policy of the arm of each slot, given the arms of earlier slots, (n, L)."""
    rewards: Floats
    """Reward of each slot, (n, L), or of each slate, (n,)."""
    filled: NDArray[np.bool_] | None = None
    """Mask of the slots of each slate, (n, L); None if all slates have all slots."""
    arms: NDArray[np.str_] | None = None
    """Name of the arm in each slot, (n, L), for targets that need it; "" for empty slots."""

    def __post_init__(self) -> None:
        rewards = np.asarray(self.rewards)
        set_validated(
            self,
            propensities=check_array("propensities", self.propensities, 2),
            rewards=check_array("rewards", self.rewards, 1 if rewards.ndim == 1 else 2),
        )
        shape = self.propensities.shape
        if not all(shape):
            raise InvalidInput(f"a log of slates needs at least one slate and one slot; got shape {shape}")
        if self.rewards.shape not in (shape, shape[:1]):
            raise InvalidInput(
                f"rewards must have shape {shape} or {shape[:1]}, like propensities; got {rewards.shape}"
            )
        if self.filled is not None:
            set_validated(self, filled=np.asarray(self.filled, dtype=np.bool_))
        if self.arms is not None:
            set_validated(self, arms=np.asarray(self.arms))
        for name in ("filled", "arms"):
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise InvalidInput(f"{name} must have shape {shape}, like propensities; got {values.shape}")
        invalid = ~((self.propensities > 0.0) & (self.propensities <= 1.0)) & self._filled
        if invalid.any():
            slate, slot = np.argwhere(invalid)[0]
            raise InvalidInput(
                f"propensities must be above 0 and at most 1; got {self.propensities[slate, slot]} in slate {slate}, "
                f"slot {slot}"
            )

    def __len__(self) -> int:
        return len(self.propensities)

    def _values(self) -> dict[str, object]:
        return {
            "slates": len(self),
            "slots": self.slots,
            "rewards": "of slots" if self.rewards.ndim == 2 else "of slates",
        }

    @property
    def slots(self) -> int:
        """Largest number of slots in a slate."""
        return int(self.propensities.shape[1])

    @property
    def _filled(self) -> NDArray[np.bool_]:
        return np.ones(self.propensities.shape, dtype=np.bool_) if self.filled is None else self.filled

    def weights(self, target: SlateTarget) -> Floats:
        """Weight of each slot, (n, L): 1 for empty slots, so that they do not change estimates."""
        probabilities = check_array("target", target(self) if callable(target) else np.asarray(target), 2)
        if probabilities.shape != self.propensities.shape:
            raise InvalidInput(
                f"target must have the probability of the logged arm of each slot, shape {self.propensities.shape}; "
                f"got {probabilities.shape}"
            )
        invalid = ~((probabilities >= 0.0) & (probabilities <= 1.0)) & self._filled
        if invalid.any():
            slate, slot = np.argwhere(invalid)[0]
            raise InvalidInput(
                f"target must be at least 0 and at most 1; got {probabilities[slate, slot]} in slate {slate}"
            )
        return np.divide(probabilities, self.propensities, out=np.ones(probabilities.shape), where=self._filled)


@dataclass(frozen=True, kw_only=True)
class SlateColumns:
    """Names of the columns of a table with one row for each slot of each slate."""

    slate: str = "slate"
    """Rows with the same value belong to one slate. Of any type."""
    slot: str = "slot"
    """Numbers, which are sorted, or texts, which are ordered by first appearance."""
    arm: str = "arm"
    propensity: str = "propensity"
    reward: str = "reward"
    of_slate: bool = False
    """Whether the reward is that of the whole slate, repeated in all its rows."""


def read_slates(table: Any, columns: SlateColumns | None = None) -> SlateLog:
    """Read a log of slates from a polars or pandas data frame, or from a dict of columns.

    The values and costs of an export are not read, so results are rewards. `evaluate_slates` of `open_log` has payoffs.

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
    advice = "Name them with SlateColumns(slate=..., slot=..., ...)"
    check_present(wanted, frame.columns, advice=advice, field=None)
    if not len(frame):
        raise InvalidInput("the table has no rows. A log needs at least one slate")
    index = (
        slate_codes(frame[names.slate]),
        slate_codes(frame[names.slot], ordered=frame[names.slot].dtype.is_numeric()),
    )
    rewards = reward_values(frame[names.reward])
    arms = frame[names.arm].cast(pl.String).to_numpy().astype(np.str_)
    log = slates_from_rows(index, float_values(frame[names.propensity]), rewards, arms)
    return _with_slate_rewards(log, index[0], rewards) if names.of_slate else log


def slates_from_rows(
    index: tuple[Ints, Ints], propensities: Floats, rewards: Floats, arms: NDArray[np.str_] | None
) -> SlateLog:
    """Build a SlateLog from one entry for each row.

    `index` has the slate and the slot of each row.
    """
    filled = np.zeros((index[0].max() + 1, index[1].max() + 1), dtype=np.int64)
    np.add.at(filled, index, 1)
    if filled.max() > 1:
        slate, slot = (int(each) for each in np.argwhere(filled > 1)[0])
        row = int(np.flatnonzero((index[0] == slate) & (index[1] == slot))[1])
        raise InvalidInput(f"a slate must have each slot once; row {row} has the slate and slot of an earlier row")
    return SlateLog(
        propensities=slot_table(index, propensities, 1.0),
        rewards=slot_table(index, rewards, 0.0),
        filled=filled.astype(np.bool_),
        arms=None if arms is None else slot_table(index, arms, ""),
    )


def slot_table(index: tuple[Ints, Ints], values: NDArray[Any], empty: float | str) -> NDArray[Any]:
    """Arrange values by slate and slot, (n, L), with `empty` in empty slots."""
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


def slate_codes(series: pl.Series, *, ordered: bool = False) -> Ints:
    """Index of each value among the distinct values.

    The distinct values are ordered by first appearance, or sorted.
    """
    if series.null_count():
        raise InvalidInput(f"column {series.name!r} has missing values. Fill them in, or drop such rows")
    different = series.unique(maintain_order=True)
    table = (different.sort() if ordered else different).alias("value").to_frame().with_row_index()
    indexed = series.alias("value").to_frame().join(table, on="value", how="left", maintain_order="left")
    return indexed["index"].to_numpy().astype(np.int64)
