"""RowArmNames: the names of the arms of each row, in logs whose rows have different arms."""

from dataclasses import dataclass

import numpy as np

from glbandits.common.arrays import Ints, set_validated
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import RowIndex, copy_with


@dataclass(frozen=True, eq=False)
class RowArmNames:
    """The names of the arms that each row offers.

    >>> offered = RowArmNames(("a", "b", "c"), [[2, 0, -1], [1, 2, 0]])     # the first row offers c and a
    >>> offered.find("a").tolist()
    [1, 2]
    >>> offered.find("b").tolist()
    [-1, 0]
    """

    names: tuple[str, ...]
    """Names of all arms, over all rows of the log."""
    indices: Ints
    """The index in `names` of each arm of each row, (n, max_arms); -1 beyond the arms of the row."""

    def __post_init__(self) -> None:
        indices = np.asarray(self.indices)
        if indices.ndim != 2 or indices.dtype.kind not in "iu" or not (indices < len(self.names)).all():
            raise InvalidInput(
                "indices must be an array (rows, arms) of indices of names, -1 beyond the arms of a row; got shape "
                f"{indices.shape} of {indices.dtype}"
            )
        set_validated(self, names=tuple(map(str, self.names)), indices=indices.astype(np.int64, copy=False))

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, rows: RowIndex) -> "RowArmNames":
        return copy_with(self, indices=self.indices[rows])

    def find(self, name: str) -> Ints:
        """Return the index of an arm in each row, (n,): -1 in rows that do not offer it."""
        offered = self.indices == (self.names.index(name) if name in self.names else len(self.names))
        found: Ints = np.where(offered.any(axis=1), np.argmax(offered, axis=1), -1)
        return found
