"""TrainingRows: a sketch of the rows that a model learned, by which other code notices that it has learned a row.

Rows of a log may equal each other by coincidence, if they have few features. So the sketch has hashes of windows of
consecutive rows: of single rows if these differ from each other, else of as many as are needed. Of all windows it keeps
those with the smallest hashes, which are a random sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glbandits.common.arrays import Floats
from glbandits.maths.sparse_rows import SparseRows

Hashes = NDArray[np.uint64]
SIZE = 4096
"""Number of hashes of a sketch."""
WINDOWS = 1, 16, 256
"""Numbers of consecutive rows of a window."""
FEWER_COPIES = 1.05
"""A longer window is used if it has fewer copies by this factor."""
MAX_COPIES = 20.0
"""Mean number of copies of a window above which rows are too much alike to be recognised."""
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 2**64)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """A sketch of the rows that a model learned."""

    rows: int
    window: int
    """Number of consecutive rows of which each hash is."""
    hashes: Hashes
    """The smallest hashes of windows, sorted."""

    def sampled(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Return which of the hashes would be in the sketch if the model had learned them."""
        found: NDArray[np.bool_] = (
            hashes <= self.hashes[-1] if len(self.hashes) == SIZE else np.ones(len(hashes), dtype=bool)
        )
        return found

    def settings(self) -> dict[str, Any]:
        """Return what the header of a model file says of the sketch."""
        return {"rows": self.rows, "window": self.window, "digest": sha256(self.hashes.tobytes()).hexdigest()}


class _Sketch(NamedTuple):
    """The smallest hashes so far, with the number of their windows."""

    hashes: Hashes
    counts: NDArray[np.int64]

    def with_hashes(self, hashes: Hashes) -> "_Sketch":
        """Return the sketch after more windows."""
        if len(self.hashes) == SIZE:
            hashes = hashes[hashes <= self.hashes[-1]]
        found, indices = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
        counts = np.bincount(indices, weights=np.append(self.counts, np.ones(len(hashes))), minlength=len(found))
        return _Sketch(found[:SIZE], counts[:SIZE].astype(np.int64))


class TrainingRowSums:
    """Accumulates the sketch of rows that a model learns."""

    def __init__(self) -> None:
        self._rows = 0
        self._windows = [WindowHashes(window) for window in WINDOWS]
        self._sketches = [_Sketch(np.zeros(0, np.uint64), np.zeros(0, np.int64)) for _ in WINDOWS]

    def add(self, features: Floats | SparseRows, rewards: Floats) -> None:
        """Add the next rows: the features of their chosen arms, and their rewards."""
        hashes = row_hashes(features, rewards)
        self._rows += len(hashes)
        self._sketches = [
            sketch.with_hashes(windows.next(hashes))
            for windows, sketch in zip(self._windows, self._sketches, strict=True)
        ]

    def training_rows(self) -> TrainingRows | None:
        """Return the sketch; None if the rows are too much alike."""
        known = [(w, sketch) for w, sketch in zip(WINDOWS, self._sketches, strict=True) if len(sketch.hashes)]
        if not known:
            return None
        copies = [float(sketch.counts.mean()) for _, sketch in known]
        if min(copies) > MAX_COPIES:
            return None
        best = next(i for i, each in enumerate(copies) if each <= FEWER_COPIES * min(copies))
        window, sketch = known[best]
        return TrainingRows(self._rows, window, sketch.hashes)


class WindowHashes:
    """Hashes of all windows of consecutive rows, over blocks."""

    def __init__(self, window: int) -> None:
        self._window, self._tail = window, np.zeros(0, np.uint64)

    def next(self, hashes: Hashes) -> Hashes:
        """Return the hashes of the windows that end in the next rows, from the hashes of these rows."""
        rows = np.concatenate([self._tail, hashes])
        self._tail = rows[max(len(rows) - self._window + 1, 0) :]
        if len(rows) < self._window:
            return np.zeros(0, np.uint64)
        # The sum of h_(i + j) base^(-j) over the window, from differences of one running sum.
        sums = np.append(np.uint64(0), np.cumsum(rows * _powers(_INVERSE, len(rows))))
        return _mixed((sums[self._window :] - sums[: -self._window]) * _powers(_BASE, len(rows) - self._window + 1))


def row_hashes(features: Floats | SparseRows, rewards: Floats) -> Hashes:
    """Return a hash of the features of the chosen arm and of the reward of each row."""
    if isinstance(features, SparseRows):
        terms = _mixed(_bits(features.values)) * _column_factors(features.indices)
        sums = np.append(np.uint64(0), np.cumsum(terms))[features.indptr]
        hashes = sums[1:] - sums[:-1]
    else:
        factors = _column_factors(np.arange(features.shape[1]))
        hashes = np.zeros(len(features), np.uint64)
        for column, factor in zip(features.T, factors, strict=True):
            hashes += _mixed(_bits(column)) * factor
    return _mixed(hashes + _mixed(_bits(rewards) + np.uint64(1)))


def _bits(values: Floats) -> Hashes:
    """The bits of numbers, the same for 0 and -0: 0."""
    return np.ascontiguousarray(values + 0.0).view(np.uint64)


def _column_factors(columns: Sequence[int] | NDArray[np.int64]) -> Hashes:
    """An odd factor for each column."""
    return _mixed(np.asarray(columns).astype(np.uint64) + np.uint64(1)) | np.uint64(1)


def _powers(base: int, count: int) -> Hashes:
    """The powers base^0, base^1, ... modulo 2^64."""
    powers = np.full(count, base, dtype=np.uint64)
    powers[:1] = 1
    return np.cumprod(powers)


def _mixed(hashes: Hashes) -> Hashes:
    """Mix bits so that each depends on all others; 0 stays 0 (the last steps of SplitMix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
