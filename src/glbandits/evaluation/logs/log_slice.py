"""Slices and splits of a log, and the assignment of rows to folds.

Slices of a streamed log are streamed.

No cluster, such as a user, is in both parts of a split. If a cut between two rows separates the clusters, the parts are
the rows before and after the cut. If clusters interleave, as in a log that is sorted by time, a hash assigns whole
clusters to the parts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from glbandits.common.arrays import Bools, Floats, Ints
from glbandits.common.errors import InvalidInput, lookup
from glbandits.evaluation.logs.arm_features import copy_with
from glbandits.evaluation.logs.doubts import Doubt
from glbandits.evaluation.logs.logged_data import BLOCK, Log, LoggedData, StreamedLog
from glbandits.evaluation.logs.schema import LogSchema

MIN_REST_SHARE = 0.5
"""Minimum number of rows of the second part after a cut, as a share of the requested number."""
STEP, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Constants of the hash splitmix64."""
HASHES = 2**20
"""Number of hash values of clusters in a split by clusters."""


@dataclass(frozen=True, eq=False, repr=False)
class LogSlice(StreamedLog):
    """The rows `start` to `stop` - 1 of another log. They are not copied: each iteration reads that log."""

    log: Log
    start: int
    stop: int
    doubts: tuple[Doubt, ...] = ()
    """Doubts about these rows that other rows of the log tell."""

    @cached_property
    def schema(self) -> LogSchema:  # type: ignore[override]
        """What the rows have."""
        schema = self.log.schema
        first_row = None if schema.first_row is None else schema.first_row + self.start
        first_row = 0 if isinstance(self.log, LoggedData) else first_row
        doubts = (*schema.doubts, *self.doubts)
        return replace(schema, rows=self.stop - self.start, first_row=first_row, doubts=doubts, dates=())

    def for_workers(self) -> "LogSlice":
        """Return the log in a form of which each worker reads its part without the rows before it."""
        return replace(self, log=self.log.for_workers())

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator[LoggedData]:
        """Yield rows in order, as `Log.blocks` says."""
        if isinstance(self.log, LoggedData):
            rows = self.log[self.start : self.stop]
            yield from rows.blocks(size, start=start, stop=stop, every=every, features=features)
            return
        first, last = self.start + start, self.stop if stop is None else min(self.start + stop, self.stop)
        if every == 1 or not self.start % every:
            yield from self.log.blocks(size, start=first, stop=last, every=every, features=features)
            return
        row = start
        for block in self.log.blocks(size, start=first, stop=last, features=features):
            yield block[-row % every :: every]
            row += len(block)

    def select(self, values: Floats) -> Floats:
        """Return the entries of this slice from an array with one entry for each row of the log."""
        return values[self.start : self.stop]


@dataclass(frozen=True, eq=False, repr=False)
class SelectedRows(StreamedLog):
    """The rows of another log that a mask selects."""

    log: Log
    mask: Bools
    """(rows of the other log,)."""

    @cached_property
    def schema(self) -> LogSchema:  # type: ignore[override]
        """What the rows have."""
        return replace(self.log.schema, rows=int(np.count_nonzero(self.mask)), first_row=None, dates=())

    @cached_property
    def positions(self) -> Ints:
        """The selected rows before each multiple of `BLOCK` rows of the other log, and those before its end."""
        starts = range(0, len(self.mask), BLOCK)
        counts = [int(np.count_nonzero(self.mask[start : start + BLOCK])) for start in starts]
        return np.cumsum([0, *counts])

    def for_workers(self) -> "SelectedRows":
        """Return the log in a form of which each worker reads its part without the rows before it."""
        return replace(self, log=self.log.for_workers())

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator[LoggedData]:
        """Yield rows in order, as `Log.blocks` says, except that blocks end where those of the other log do."""
        stop = len(self) if stop is None else min(stop, len(self))
        piece = int(np.searchsorted(self.positions, start, side="right")) - 1
        first, row = piece * BLOCK, int(self.positions[piece])  # of the other log, and of this one
        for block in self.log.blocks(size, start=first, features=features):
            mask = self.mask[first : first + len(block)]
            count = int(np.count_nonzero(mask))
            if row + count > start and row < stop:
                wanted = np.arange(row, row + count)
                wanted = (wanted >= start) & (wanted < stop) & (wanted % every == 0)
                if wanted.any():
                    yield block[np.flatnonzero(mask)[wanted]]
            first, row = first + len(block), row + count
            if row >= stop:
                return

    def select(self, values: Floats) -> Floats:
        """Return the entries of this part from an array with one entry for each row of the log."""
        return values[self.mask]


def blocks_by_part(
    log: Log, size: int, bounds: Sequence[tuple[int, int]], first: int = 0
) -> Iterator[tuple[int, LoggedData]]:
    """Yield the blocks from the part `first` on in one pass, each with the index of its part.

    Blocks end where parts do.
    """
    if first == len(bounds):
        return
    part, row = first, bounds[first][0]
    for block in log.blocks(size, start=row):
        done = 0
        while done < len(block):
            stop = min(len(block), bounds[part][1] - row + done)
            yield part, block if stop - done == len(block) else block[done:stop]
            row, done = row + stop - done, stop
            part += row == bounds[part][1]


def row_bounds(log: Log, size: int, rows: int) -> list[tuple[int, int]]:
    """Return the first row of each part of a log, and the row after its last one.

    Parts have about `rows` rows, a multiple of the `size` of a block, whoever reads them. So sums over parts are
    always added in the same order.
    """
    if isinstance(log, SelectedRows):
        each = max(1, -(-rows // BLOCK))
        ends = [*log.positions[each:-1:each].tolist(), len(log)]
    else:
        each, offset = -(-rows // size) * size, log.schema.first_row or 0
        ends = [*range(each - offset % size, len(log), each), len(log)]
    return [(first, last) for first, last in pairwise([0, *ends]) if last > first]


@dataclass(frozen=True, eq=False, repr=False)
class OtherReward(StreamedLog):
    """All rows of another log, with one of its other rewards: NaN in rows that lack it."""

    log: Log
    name: str

    @cached_property
    def schema(self) -> LogSchema:  # type: ignore[override]
        """What the rows have."""
        link = self.log.schema.other_rewards[self.name]
        return replace(self.log.schema, link=link, link_inferred=False, other_rewards={})

    def for_workers(self) -> "OtherReward":
        """Return the log in a form of which each worker reads its part without the rows before it."""
        return replace(self, log=self.log.for_workers())

    def blocks(
        self, size: int = BLOCK, *, start: int = 0, stop: int | None = None, every: int = 1, features: bool = True
    ) -> Iterator[LoggedData]:
        """Yield rows in order, as `Log.blocks` says."""
        for block in self.log.blocks(size, start=start, stop=stop, every=every, features=features):
            rewards = block.other_rewards[self.name]
            yield copy_with(block, rewards=rewards, link=self.schema.link, other_rewards={})

    def select(self, values: Floats) -> Floats:
        """Return the array, which has one entry for each row of the log."""
        return values


def with_reward(log: Log, name: str) -> Log:
    """Return a log with one of its other rewards, without the rows that lack it."""
    lookup("reward", name, log.schema.other_rewards)
    other = OtherReward(log, name)
    known = np.concatenate([~np.isnan(block.rewards) for block in other.blocks(features=False)])
    if not known.any():
        raise InvalidInput(f"no row has the reward {name!r}. Leave it out", field="reward")
    return other if known.all() else SelectedRows(other, known)


def of_part(values: Floats, part: Log, log: Log) -> Floats:
    """Return the entries of a part of a log from an array with one entry for each row of the log."""
    if part is log or not isinstance(part, LogSlice | SelectedRows | OtherReward):
        return values
    return part.select(of_part(values, part.log, log))


def split(log: Log, share: float) -> tuple[LogSlice, LogSlice] | tuple[SelectedRows, SelectedRows]:
    """Split a log into about this share of its rows and the rest. No cluster is in both parts.

    The first part has the first rows. If clusters interleave, so that a cut between clusters would leave less than half
    of the requested rows for the second part, a hash assigns whole clusters to the parts.
    """
    rows = len(log)
    cut = round(share * rows)
    clusters = cluster_ids(log)
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


def _split_clusters(log: Log, clusters: Ints, share: float) -> tuple[SelectedRows, SelectedRows]:
    first = fold_of(clusters, HASHES) < round(share * HASHES)
    if first.all() or not first.any():
        raise InvalidInput(
            f"a share of {share:g} must leave clusters in both parts of the log; got {len(np.unique(clusters))} of "
            "them. Use a log with more clusters, or learn from another log"
        )
    return SelectedRows(log, first), SelectedRows(log, ~first)


def cluster_ids(log: Log) -> Ints | None:
    """Return the cluster of each row, (n,), without reading anything else; None if the log has no clusters."""
    if not log.schema.clusters:
        return None
    blocks = [block.clusters for block in log.blocks(features=False) if block.clusters is not None]
    return np.concatenate(blocks) if blocks else None


def _first_cut(clusters: Ints, min_rows: int) -> int:
    """The first cut after at least `min_rows` rows with no cluster on both sides."""
    ids, first_rows = np.unique(clusters, return_index=True)
    last_rows = len(clusters) - 1 - np.unique(clusters[::-1], return_index=True)[1]
    order = np.argsort(first_rows)
    first_rows, reach = first_rows[order], np.maximum.accumulate(last_rows[order])
    # A cut after row r is free if the next cluster starts at r + 1, and all clusters before it have ended.
    free = np.append(first_rows[1:][reach[:-1] < first_rows[1:]], len(clusters)) if len(ids) else np.zeros(1, int)
    return int(free[np.searchsorted(free, min_rows)])
