"""Parts of a log, in the order of its rows; a log that is streamed stays one that is streamed.

Where rows have clusters, such as users, no cluster is in both parts of a split. If a cut between two rows can do that,
the parts are the rows before and after it. If clusters interleave, as in a log that is sorted by time, whole clusters
are assigned to parts by a hash.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData
from glbandits.features import Features
from glbandits.records import Floats, Ints

LEAST_REST = 0.5
"""The share of the rows meant for the second part that a clean cut must leave."""
STEP, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The constants of splitmix64, which makes random bits of consecutive numbers."""
HASHES = 2**20
"""Values of the hash of a cluster."""


@dataclass(frozen=True, eq=False)
class LogSlice:
    """The rows `start` to `stop` - 1 of another log. They are read from that log each time, never held."""

    log: Log
    start: int
    stop: int

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self.log.dim

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms, where all rows have the same."""
        return self.log.arm_names

    @property
    def feature_map(self) -> Features | None:
        """What made the features of the columns of a table; None if they were numbers from the start."""
        return self.log.feature_map

    @property
    def sparse(self) -> bool:
        """Whether the arms are sparse rows."""
        return self.log.sparse

    def __len__(self) -> int:
        return self.stop - self.start

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """All rows in order, in blocks of at most so many."""
        if isinstance(self.log, LoggedData):
            yield from self.log[self.start : self.stop].blocks(size)
            return
        first_row = 0
        for block in self.log.blocks(max(size, BLOCK)):  # small blocks would make a long way to `start`
            inside = block[max(self.start - first_row, 0) : max(self.stop - first_row, 0)]
            yield from inside.blocks(size)
            first_row += len(block)
            if first_row >= self.stop:
                return

    def of(self, values: Floats) -> Floats:
        """Of an array with an entry for each row of the log, those of this part."""
        return values[self.start : self.stop]


@dataclass(frozen=True, eq=False)
class ClusterSlice:
    """The rows of some clusters of another log: those whose hash is in a range. They are read each time, never held."""

    log: Log
    hashes: range
    """Of `HASHES`."""
    rows: int
    """How many rows it has."""

    @property
    def dim(self) -> int:
        """Features of an arm."""
        return self.log.dim

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """Names of the arms, where all rows have the same."""
        return self.log.arm_names

    @property
    def feature_map(self) -> Features | None:
        """What made the features of the columns of a table; None if they were numbers from the start."""
        return self.log.feature_map

    @property
    def sparse(self) -> bool:
        """Whether the arms are sparse rows."""
        return self.log.sparse

    def __len__(self) -> int:
        return self.rows

    def blocks(self, size: int = BLOCK) -> Iterator[LoggedData]:
        """All rows in order, in blocks of at most so many."""
        for block in self.log.blocks(size):
            assert block.clusters is not None
            inside = block[_in_range(block.clusters, self.hashes)]
            if len(inside):
                yield inside

    def of(self, values: Floats) -> Floats:
        """Of an array with an entry for each row of the log, those of this part."""
        clusters = _clusters(self.log)
        assert clusters is not None
        return values[_in_range(clusters, self.hashes)]


def split(log: Log, share: float) -> tuple[LogSlice, LogSlice] | tuple[ClusterSlice, ClusterSlice]:
    """Split a log into about this share of its rows, and the rest; no cluster is in both parts.

    The first part are the first rows. If clusters interleave so much that a clean cut would leave less than half of
    the rows that the second part should have, a hash assigns whole clusters to the parts.
    """
    rows = len(log)
    cut = round(share * rows)
    clusters = _clusters(log)
    if clusters is not None:
        cut = _first_cut(clusters, cut)
        if rows - cut < LEAST_REST * (1.0 - share) * rows:
            return _split_clusters(log, clusters, share)
    if not 0 < cut < rows:
        raise InvalidInput(
            f"a share of {share:g} must leave rows in both parts of the log; got a cut after {cut} of {rows} rows"
        )
    return LogSlice(log, 0, cut), LogSlice(log, cut, rows)


def fold_of(units: Ints, folds: int) -> Ints:
    """Deal rows, or clusters of rows, by their numbers to folds, without a pattern."""
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
            f"a share of {share:g} must leave clusters in both parts of the log; it has {len(np.unique(clusters))}. "
            "Use a log with more clusters, or learn from another log"
        )
    return ClusterSlice(log, range(cut), first), ClusterSlice(log, range(cut, HASHES), len(clusters) - first)


def _in_range(clusters: Ints, hashes: range) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the hash of the cluster of each row is in a range."""
    hashed = fold_of(clusters, HASHES)
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]] = (hashes.start <= hashed) & (hashed < hashes.stop)
    return inside


def _clusters(log: Log) -> Ints | None:
    """Of all rows, (n,); None if a log has none."""
    blocks: list[Ints] = []
    for block in log.blocks():
        if block.clusters is None:
            return None
        blocks.append(block.clusters)
    return np.concatenate(blocks) if blocks else None


def _first_cut(clusters: Ints, least: int) -> int:
    """The first row, not before `least`, that no cluster reaches over."""
    _, unit = np.unique(clusters, return_inverse=True)
    last_row = np.zeros(len(clusters), dtype=np.int64)
    np.maximum.at(last_row, unit, np.arange(len(clusters)))
    reach = np.maximum.accumulate(last_row[unit])  # the last row of all clusters that have begun by each row
    free = np.flatnonzero(reach == np.arange(len(clusters))) + 1
    return int(free[np.searchsorted(free, least)])
