"""SparseArms: the arms of a log as sparse rows, of which only the features that are set take memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import Rows, part_of, whole_numbers
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.records import Floats, Ints, set_validated


@dataclass(frozen=True, eq=False)
class SparseArms:
    """Arms as sparse rows: for hashed or one-hot features, of which few are set.

    Policies play such a log in their sparse form, as in a `Bandit` with `sparse=True`.

    Args:
        arms: all arms of the first row of the log, then all of the second, and so on: SparseRows, or any matrix or
            array of scipy.sparse.
        counts: how many arms each row of the log has, (n,).
        dim: the number of features; needed for SparseRows, which do not tell it.
        same_arms: whether all rows of the log have the same arms in the same order, by name. Their features may differ.
        starts: where the arms of each row begin in `arms`, (n,), if they do not follow one after the other. Zeros share
            the same arms among all rows.

    >>> from scipy import sparse
    >>> arms = SparseArms(sparse.random_array((5, 2**20), density=1e-5, format="csr"), counts=[2, 3])
    >>> len(arms), arms.dim, arms.most
    (2, 1048576, 3)
    """

    arms: SparseRows
    counts: Ints
    dim: int = 0
    same_arms: bool = False
    starts: Ints | None = None
    most: int = 0
    """Arms of the row that has most, in the whole log."""

    def __post_init__(self) -> None:
        arms: Any = self.arms
        dim = self.dim or (getattr(arms, "shape", None) or (0,))[-1]
        if dim < 1:
            raise InvalidInput("SparseArms needs dim, the number of features, which SparseRows do not tell")
        rows = as_sparse_rows(arms, dim, "arms", may_be_empty=True)
        counts = whole_numbers("counts", self.counts)
        starts = np.cumsum(counts) - counts if self.starts is None else whole_numbers("starts", self.starts)
        if counts.shape != starts.shape or (counts < 1).any() or (starts < 0).any():
            raise InvalidInput("counts and starts must have a number for each row of the log, and each row an arm")
        needed = int((starts + counts).max(initial=0))
        if needed > rows.row_count or (self.starts is None and needed < rows.row_count):
            raise InvalidInput(f"counts must sum to the number of arms, {rows.row_count}; got {needed}")
        most = max(self.most, int(counts.max(initial=0)))
        if self.same_arms and (counts != most).any():
            raise InvalidInput(f"same_arms needs as many arms in each row; got {counts.min()} to {most}")
        set_validated(self, arms=rows, counts=counts, dim=dim, starts=starts, most=most)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: Rows) -> "SparseArms":
        return part_of(
            self, counts=np.ascontiguousarray(self.counts[rows]), starts=np.ascontiguousarray(self.first_arms[rows])
        )

    @property
    def first_arms(self) -> Ints:
        """Where the arms of each row begin in `arms`, (n,)."""
        assert self.starts is not None
        return self.starts

    def every_arm(self) -> SparseRows:
        """All arms of all rows, one below the other, (counts.sum() rows)."""
        starts, counts = self.first_arms, self.counts
        before = np.cumsum(counts) - counts
        if len(starts) and (starts - starts[0] == before).all():
            return self.arms.rows(int(starts[0]), int(starts[-1] + counts[-1]))
        return self.arms.take(np.arange(counts.sum()) + np.repeat(starts - before, counts))

    def chosen(self, chosen: Ints) -> SparseRows:
        """The chosen arm of each row, (n rows)."""
        return self.arms.take(self.first_arms + chosen)

    def features(self) -> Floats:
        """Raise InvalidInput: arms that are vectors do not fit in memory."""
        raise InvalidInput(
            f"the arms of this log are sparse rows of {self.dim} features, and this needs arms as vectors. Read the "
            "log with sparse=False, or take LoggedData.arms.every_arm()"
        )
