"""Parts of a log, in the order of its rows; a log that is streamed stays one that is streamed."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glbandits.errors import InvalidInput
from glbandits.evaluation.logged_data import BLOCK, Log, LoggedData
from glbandits.records import Ints


@dataclass(frozen=True, eq=False)
class LogPart:
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


def split(log: Log, share: float) -> tuple[LogPart, LogPart]:
    """The first rows, about this share of all, and the rest. Rows that were decided together stay together."""
    rows = len(log)
    cut = round(share * rows)
    clusters = _clusters(log)
    if clusters is not None:
        cut = _first_cut(clusters, cut)
    if not 0 < cut < rows:
        raise InvalidInput(
            f"a share of {share:g} must leave rows in both parts of the log; got a cut after {cut} of {rows} rows"
            + (
                ""
                if clusters is None
                else ", where no cluster goes on behind it. Sort the log by cluster, or learn from another log"
            )
        )
    return LogPart(log, 0, cut), LogPart(log, cut, rows)


def _clusters(log: Log) -> Ints | None:
    """Of all rows, (n,); None if a log has none."""
    blocks: list[Ints] = []
    for block in log.blocks():
        if block.clusters is None:
            return None
        blocks.append(block.clusters)
    return np.concatenate(blocks) if blocks else None


def _first_cut(clusters: Ints, least: int) -> int:
    """The first place, not before `least`, over which no cluster reaches."""
    _, place = np.unique(clusters, return_inverse=True)
    last_row = np.zeros(len(clusters), dtype=np.int64)
    np.maximum.at(last_row, place, np.arange(len(clusters)))
    reach = np.maximum.accumulate(last_row[place])  # the last row of all clusters that have begun by each row
    free = np.flatnonzero(reach == np.arange(len(clusters))) + 1
    return int(free[np.searchsorted(free, least)])
