"""Slices and splits of a log, and the assignment of rows to folds.

Slices of a streamed log are streamed.

No cluster, such as a user, is in both parts of a split. If a cut between two rows separates the clusters, the parts are
the rows before and after the cut. If clusters interleave, as in a log that is sorted by time, a hash assigns whole
clusters to the parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.common.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import BLOCK, DisplayedLog, Log, LoggedData
from glbandits.features import Features

MIN_REST_SHARE = 0.5
"""Minimum number of rows of the second part after a cut, as a share of the requested number."""
STEP, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Constants of the hash splitmix64."""
HASHES = 2**20
"""Number of hash values of clusters in a split by clusters."""


@runtime_checkable
class SkippingLog(Protocol):
    """A log that can begin to read in the middle."""

    def blocks_from(self, start: int, size: int) -> Iterator[tuple[int, LoggedData]]:
        """Yield the blocks of `blocks` from the one with row `start` on, each with the index of its first row."""


@dataclass(frozen=True, eq=False, repr=False)
class PartOfLog(DisplayedLog):
    """Some rows of another log. They are not copied: each iteration reads that log."""

    log: Log

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return self.log.dim

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms; None if rows have different arms."""
        return self.log.arm_names

    @property
    def feature_map(self) -> Features | None:
        """The map from table columns to features; None if the log was built from numeric features."""
        return self.log.feature_map

    @property
    def sparse(self) -> bool:
        """Whether the arms are `SparseArms`."""
        return self.log.sparse


@dataclass(frozen=True, eq=False, repr=False)
class LogSlice(PartOfLog):
    """The rows `start` to `stop` - 1 of another log."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of at most `size` rows."""
        if isinstance(self.log, LoggedData):
            yield from self.log[self.start : self.stop].blocks(size)
            return
        for first_row, block in self._blocks(max(size, BLOCK)):  # small blocks would make skipping to `start` slow
            inside = block[max(self.start - first_row, 0) : max(self.stop - first_row, 0)]
            yield from inside.blocks(size)
            if first_row + len(block) >= self.stop:
                return

    def _blocks(self, size: int) -> Iterator[tuple[int, LoggedData]]:
        """Blocks of the log, each with the index of its first row; from row `start` on if the log can skip rows."""
        if isinstance(self.log, SkippingLog):
            yield from self.log.blocks_from(self.start, size)
            return
        first_row = 0
        for block in self.log.blocks(size):
            yield first_row, block
            first_row += len(block)

    def select(self, values: Floats) -> Floats:
        """Return the entries of this slice from an array with one entry for each row of the log."""
        return values[self.start : self.stop]


@dataclass(frozen=True, eq=False, repr=False)
class ClusterSlice(PartOfLog):
    """The rows of another log whose cluster has a hash in a range."""

    hashes: range
    """Of the values 0 to `HASHES` - 1."""
    rows: int
    """Number of rows."""

    def __len__(self) -> int:
        return self.rows

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """Yield all rows in order, in blocks of at most `size` rows."""
        for block in self.log.blocks(size):
            assert block.clusters is not None
            inside = block[_in_range(block.clusters, self.hashes)]
            if len(inside):
                yield inside

    def select(self, values: Floats) -> Floats:
        """Return the entries of this slice from an array with one entry for each row of the log."""
        clusters = _clusters(self.log)
        assert clusters is not None
        return values[_in_range(clusters, self.hashes)]


def split(log: Log, share: float) -> tuple[LogSlice, LogSlice] | tuple[ClusterSlice, ClusterSlice]:
    """Split a log into about this share of its rows and the rest. No cluster is in both parts.

    The first part has the first rows. If clusters interleave, so that a cut between clusters would leave less than half
    of the requested rows for the second part, a hash assigns whole clusters to the parts.
    """
    rows = len(log)
    cut = round(share * rows)
    clusters = _clusters(log)
    if clusters is not None:
        cut = _first_cut(clusters, cut)
        if rows - cut < MIN_REST_SHARE * (1.0 - share) * rows:
            return _split_clusters(log, clusters, share)
    if not 0 < cut < rows:
        raise InvalidInput(
            f"a share of {share:g} must leave rows in both parts of the log; got a cut after {cut} of {rows} rows"
        )
    return LogSlice(log, 0, cut), LogSlice(log, cut, rows)


def fold_of(units: Ints, folds: int) -> Ints:
    """Hash numbers of rows or clusters to 0 to `folds` - 1."""
    mixed = (units.astype(np.uint64) + np.uint64(1)) * STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * MIX_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * MIX_2
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(folds)).astype(np.int64)


def _split_clusters(log: Log, clusters: Ints, share: float) -> tuple[ClusterSlice, ClusterSlice]:
    cut = round(share * HASHES)
    first = int(_in_range(clusters, range(cut)).sum())
    if not 0 < first < len(clusters):
        raise InvalidInput(
            f"a share of {share:g} must leave clusters in both parts of the log; got {len(np.unique(clusters))} of "
            "them. Use a log with more clusters, or learn from another log"
        )
    return ClusterSlice(log, range(cut), first), ClusterSlice(log, range(cut, HASHES), len(clusters) - first)


def _in_range(clusters: Ints, hashes: range) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the hash of the cluster of each row is in the range."""
    hashed = fold_of(clusters, HASHES)
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]] = (hashes.start <= hashed) & (hashed < hashes.stop)
    return inside


def _clusters(log: Log) -> Ints | None:
    """Clusters of all rows, (n,); None if the log has no clusters."""
    blocks: list[Ints] = []
    for block in log.blocks():
        if block.clusters is None:
            return None
        blocks.append(block.clusters)
    return np.concatenate(blocks) if blocks else None


def _first_cut(clusters: Ints, min_rows: int) -> int:
    """The first cut after at least `min_rows` rows with no cluster on both sides."""
    _, unit = np.unique(clusters, return_inverse=True)
    last_row = np.zeros(len(clusters), dtype=np.int64)
    np.maximum.at(last_row, unit, np.arange(len(clusters)))
    reach = np.maximum.accumulate(last_row[unit])  # last row of all clusters that have started by each row
    free = np.flatnonzero(reach == np.arange(len(clusters))) + 1
    return int(free[np.searchsorted(free, min_rows)])
