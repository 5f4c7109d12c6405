"""SparseRounds: rounds whose arms are sparse rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows
from glbandits.records import Floats, Ints, set_validated


@dataclass(frozen=True)
class SparseRounds:
    """As `Rounds`, for arms with many features of which few are set."""

    arms: SparseRows
    """All arms of the first round, then all of the second, and so on; SparseRows, or a matrix of scipy.sparse."""
    counts: Ints
    """How many arms each round has, (rounds,)."""
    expected: Floats
    """Expected reward of each arm, (rounds, most arms)."""
    noise: Floats
    """What the environment's reward rule turns an expected reward into a reward with, (rounds,)."""
    values: Floats
    """What regret is counted with, (rounds, most arms): the expected reward, unless an environment says otherwise."""
    dim: int
    """The number of features of an arm."""

    def __post_init__(self) -> None:
        rows = as_sparse_rows(self.arms, self.dim, "arms", may_be_empty=True)
        counts = np.ascontiguousarray(self.counts, dtype=np.int64)
        parts: dict[str, Any] = {
            name: np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            for name in ("expected", "noise", "values")
        }
        set_validated(self, arms=rows, counts=counts, **parts)
        shapes = {name: part.shape for name, part in parts.items()}
        most = self.expected.shape[-1] if self.expected.ndim == 2 else 0
        if shapes != {"expected": (len(counts), most), "noise": (len(counts),), "values": (len(counts), most)}:
            raise InvalidInput(
                f"expected and values need a number for each of {len(counts)} rounds and its arms, and noise for each "
                f"round; got shapes {shapes}"
            )
        if not all(np.isfinite(part).all() for part in parts.values()):
            raise InvalidInput("expected, noise and values must be finite numbers")
        if counts.min(initial=1) < 1 or counts.max(initial=0) > most or counts.sum() != rows.row_count:
            raise InvalidInput(
                f"counts must be 1 to {most} arms for each round, {rows.row_count} in all; got {counts.sum()} in all"
            )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def starts(self) -> Ints:
        """Where the arms of each round begin, (rounds,)."""
        return np.cumsum(self.counts) - self.counts

    def best(self) -> Floats:
        """The value of each round's best arm, (rounds,)."""
        there = np.arange(self.expected.shape[1]) < self.counts[:, np.newaxis]
        best: Floats = np.where(there, self.values, -np.inf).max(axis=1)
        return best
