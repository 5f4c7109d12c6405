"""`SparseRounds`, rounds whose arms are sparse rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from glbandits.common.arrays import Floats, Ints, set_validated
from glbandits.common.errors import InvalidInput
from glbandits.maths.sparse_rows import SparseRows, as_sparse_rows


@dataclass(frozen=True)
class SparseRounds:
    """The same as `Rounds`, for arms with many features of which few are nonzero."""

    arms: SparseRows
    """The arms of all rounds, concatenated; SparseRows or a matrix of scipy.sparse."""
    counts: Ints
    """The number of arms of each round, (rounds,)."""
    expected: Floats
    """Expected reward of each arm, (rounds, max arms)."""
    noise: Floats
    """The noise number of each round, (rounds,). `Noise.reward` computes the reward from it and the expected reward."""
    values: Floats
    """The value of each arm from which regret is computed, (rounds, max arms). Usually the same as `expected`."""
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
    def rows(self) -> tuple[Any, ...]:
        """The arms of all rounds, as compiled code takes them."""
        return tuple(self.arms)

    @property
    def starts(self) -> Ints:
        """The row of the first arm of each round, (rounds,)."""
        return np.cumsum(self.counts) - self.counts

    def best(self) -> Floats:
        """The value of each round's best arm, (rounds,)."""
        is_arm = np.arange(self.expected.shape[1]) < self.counts[:, np.newaxis]
        best: Floats = np.where(is_arm, self.values, -np.inf).max(axis=1)
        return best
