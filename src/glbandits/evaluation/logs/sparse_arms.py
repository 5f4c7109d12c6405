"""SparseArms: the arms of a log as sparse rows, which store only nonzero features."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.arm_features import ArmFeatures, FixedArms, RowIndex, check_int_array, copy_with
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows


@dataclass(frozen=True, eq=False)
class SparseArms:
    """Arms as sparse rows: for hashed or one-hot features, which are mostly 0.

    Policies use their sparse form on such a log, as in a `Bandit` with `sparse=True`.

    Args:
        arms: all arms of the first row of the log, then all of the second, and so on: SparseRows, or any matrix or
            array of scipy.sparse.
        counts: number of arms of each row of the log, (n,).
        dim: number of features; required for SparseRows, which do not store it.
        same_arms: whether all rows of the log have the same arms in the same order, by name. Their features may differ.
        starts: index in `arms` of the first arm of each row, (n,). By default the rows follow one another. With zeros,
            all rows share the same arms.

    >>> from scipy import sparse
    >>> arms = SparseArms(sparse.random_array((5, 2**20), density=1e-5, format="csr"), counts=[2, 3])
    >>> len(arms), arms.dim, arms.max_arms
    (2, 1048576, 3)
    """

    arms: SparseRows
    counts: Ints
    dim: int = 0
    same_arms: bool = False
    starts: Ints | None = None
    max_arms: int = 0
    """Largest number of arms in a row, over the whole log."""

    def __post_init__(self) -> None:
        arms: Any = self.arms
        dim = self.dim or (getattr(arms, "shape", None) or (0,))[-1]
        if dim < 1:
            raise InvalidInput("SparseArms needs dim, the number of features, if arms are SparseRows; got none")
        rows = as_sparse_rows(arms, dim, "arms", may_be_empty=True)
        counts = check_int_array("counts", self.counts)
        starts = np.cumsum(counts) - counts if self.starts is None else check_int_array("starts", self.starts)
        if counts.shape != starts.shape or (counts < 1).any() or (starts < 0).any():
            raise InvalidInput(
                "counts and starts must have one entry for each row of the log, with at least one arm each"
            )
        needed = int((starts + counts).max(initial=0))
        if needed > rows.row_count or (self.starts is None and needed < rows.row_count):
            raise InvalidInput(f"counts must sum to the number of arms, {rows.row_count}; got {needed}")
        max_arms = max(self.max_arms, int(counts.max(initial=0)))
        if self.same_arms and (counts != max_arms).any():
            raise InvalidInput(f"same_arms needs the same number of arms in each row; got {counts.min()} to {max_arms}")
        set_validated(self, arms=rows, counts=counts, dim=dim, starts=starts, max_arms=max_arms)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: RowIndex) -> "SparseArms":
        return copy_with(
            self, counts=np.ascontiguousarray(self.counts[rows]), starts=np.ascontiguousarray(self.first_arms[rows])
        )

    @property
    def first_arms(self) -> Ints:
        """Index in `arms` of the first arm of each row, (n,)."""
        assert self.starts is not None
        return self.starts

    def every_arm(self) -> SparseRows:
        """All arms of all rows, stacked: counts.sum() sparse rows."""
        starts, counts = self.first_arms, self.counts
        before = np.cumsum(counts) - counts
        if len(starts) and (starts - starts[0] == before).all():
            return self.arms.rows(int(starts[0]), int(starts[-1] + counts[-1]))
        return self.arms.take(np.arange(counts.sum()) + np.repeat(starts - before, counts))

    def chosen(self, chosen: Ints) -> SparseRows:
        """The chosen arm of each row: n sparse rows."""
        return self.arms.take(self.first_arms + chosen)

    def features(self) -> Floats:
        """Raise InvalidInput: dense features of sparse arms would not fit in memory."""
        raise InvalidInput(
            f"this operation needs dense arms; the arms of this log are sparse rows of {self.dim} features. Read the "
            "log with sparse=False, or use LoggedData.arms.every_arm()"
        )


def arms_between(packed: Any, start: int, end: int) -> Any:
    """Return the arms from `start` to `end` of `packed_arms`: a matrix, or SparseRows."""
    return SparseRows(*packed).rows(start, end) if isinstance(packed, tuple) else packed[start:end]


def packed_arms(arms: ArmFeatures) -> tuple[Any, Ints]:
    """Return arms as compiled loops take them, and the index there of the first arm of each row of the log.

    They are a matrix, or a tuple of the three arrays of `SparseRows`. Arms that all rows share are not repeated.
    """
    if isinstance(arms, SparseArms):
        return tuple(arms.arms), np.ascontiguousarray(arms.first_arms)
    if isinstance(arms, FixedArms):
        return np.ascontiguousarray(arms.arms), np.zeros(len(arms), dtype=np.int64)
    features = np.ascontiguousarray(arms.features())
    return features.reshape(-1, features.shape[2]), np.arange(len(features)) * features.shape[1]
