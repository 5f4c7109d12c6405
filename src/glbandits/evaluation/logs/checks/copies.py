"""Whether rows of a log are copies of other rows, which would count as evidence twice.

Equal rows are no copies yet: a log with few categories and rewards of 0 and 1 has many. The number of rows with the
same content is then, however often each content occurs, a mixture of Poisson distributions. If f(k) contents occur k
times, the expected values of k! f(k) are log-convex: (k! f(k))^2 <= (k-1)! f(k-1) (k+1)! f(k+1). Copies break this, or
all counts have a common divisor, or long segments of rows occur twice.
"""

import math
from functools import lru_cache, reduce
from typing import ClassVar

import numpy as np

from glbandits.common.arrays import Floats, Ints
from glbandits.evaluation.logs.doubts import Doubt, DoubtKind
from glbandits.maths.online_statistics.mergeable import LARGEST, Mergeable, added, merged

SAMPLE = 4096
"""Number of contents whose rows are counted: those with the smallest hashes."""
SEGMENT = 64
"""Number of consecutive rows that are compared with others of the log."""
LEAST_CONTENTS = 20
"""The number of contents, or of repeated segments, from which on there may be a doubt."""
COINCIDENCE = 5e-4
"""The probability that the counts of all contents have a common divisor by coincidence, below which one doubts."""
LAG = 37
"""Rows are also compared with the one so many rows before, which is not its neighbour but of the same time."""
MAX_ALIKE = 0.6
"""Segments are not compared if a larger share of rows equals the row before: they would be equal by coincidence."""
ERRORS = 5.0
"""The number of standard errors above which the counts cannot be those of independent rows."""
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
STEP = np.uint64(0x9E3779B97F4A7C15)
INVERSE_OF_STEP = np.uint64(pow(int(STEP), -1, 2**64))

Hashes = np.ndarray[tuple[int], np.dtype[np.uint64]]


class SmallestHashes(Mergeable):
    """Counts the rows of the contents with the smallest hashes: a random sample of all contents."""

    def __init__(self) -> None:
        self.hashes, self.counts = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)

    def add(self, hashes: Hashes) -> None:
        """Add rows by their hashes."""
        if len(self.hashes) == SAMPLE:
            hashes = hashes[hashes <= self.hashes[-1]]
        self._join(*np.unique(hashes, return_counts=True))

    def merge(self, later: "SmallestHashes") -> None:
        """Add the rows of the next part."""
        self._join(later.hashes, later.counts)

    def _join(self, hashes: Hashes, counts: Ints) -> None:
        joined, at = np.unique(np.concatenate([self.hashes, hashes]), return_inverse=True)
        sums = np.bincount(at, weights=np.concatenate([self.counts, counts]), minlength=len(joined))
        self.hashes, self.counts = joined[:SAMPLE], sums[:SAMPLE].astype(np.int64)


class CopySums(Mergeable):
    """Accumulates what tells copies."""

    rules: ClassVar = added("count", "next_alike", "later_alike") | {
        "rows": merged,
        "segments": merged,
        "most_alike": LARGEST,
    }

    def __init__(self) -> None:
        self.rows, self.segments = SmallestHashes(), SmallestHashes()
        self.count, self.next_alike, self.later_alike, self.most_alike = 0, 0, 0, 0.0
        """Rows, those that equal the row before, and those that equal the one `LAG` rows before."""

    def add(self, hashes: Hashes) -> None:
        """Add the next rows by the hashes of their contents."""
        self.rows.add(hashes)
        alike = int((hashes[1:] == hashes[:-1]).sum())
        self.count += len(hashes)
        self.next_alike += alike
        self.later_alike += int((hashes[LAG:] == hashes[:-LAG]).sum()) if len(hashes) > LAG else 0
        self.most_alike = max(self.most_alike, alike / max(1, len(hashes) - 1))
        if len(hashes) >= SEGMENT:
            self.segments.add(_of_segments(hashes))

    def doubts(self, *, clustered: bool) -> list[Doubt]:
        """Return the doubt that rows are copies.

        Args:
            clustered: whether rows have clusters, so that neighbours may be alike.
        """
        share, how = self._copied(clustered=clustered)
        if not share:
            return []
        text = (
            f"about {share:.0%} of the rows are exact copies of other rows ({how}). Each decision counts once: drop "
            "the copies, or name the column that identifies a decision (--id, in Python Columns(id=...)). If the "
            "copies are decisions for the same user, name the users (--cluster)"
        )
        return [Doubt(kind=DoubtKind.COPIES, text=text, short=f"about {share:.0%} of the rows are copies")]

    def _copied(self, *, clustered: bool) -> tuple[float, str]:
        """The share of copies and how they were found; 0 if there are none."""
        counts = self.rows.counts
        divisor = reduce(math.gcd, counts.tolist(), 0)
        if divisor > 1 and (len(counts) - 1) * math.log(divisor) > -math.log(COINCIDENCE):  # the sum is given
            return 1.0 - 1.0 / divisor, f"the number of equal rows is always a multiple of {divisor}"
        if len(counts) >= LEAST_CONTENTS and _break_convexity(counts):
            return 1.0 - len(counts) / float(counts.sum()), "too many rows occur more than once"
        twice = self.segments.counts > 1
        if self.most_alike <= MAX_ALIKE and twice.sum() >= LEAST_CONTENTS:
            extra = float((self.segments.counts - 1).sum() / self.segments.counts.sum())
            return extra, f"segments of {SEGMENT} rows occur more than once"
        if not clustered and self.next_alike > 3 * self.later_alike + 0.02 * self.count + 1:
            return self.next_alike / self.count, "many rows equal the row before"
        return 0.0, ""


def hash_rows(*columns: Floats | Ints) -> Hashes:
    """Return a hash of the content of each row: of arrays (n,) and (n, width)."""
    rows = len(columns[0])
    hashes = np.zeros(rows, dtype=np.uint64)
    for array in columns:
        for column in array.reshape(rows, -1).T:
            bits = np.ascontiguousarray(column + 0.0, dtype=np.float64).view(np.uint64)  # -0 is 0
            hashes = _mixed(hashes * STEP + bits)
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    hashes = hashes ^ (hashes >> np.uint64(30))
    hashes *= MIX_1
    hashes ^= hashes >> np.uint64(27)
    hashes *= MIX_2
    hashes ^= hashes >> np.uint64(31)
    return hashes


def _of_segments(hashes: Hashes) -> Hashes:
    """The hash of each segment of consecutive rows."""
    first = len(hashes) - SEGMENT + 1
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes * _powers(STEP, len(hashes)))])
    return _mixed((sums[SEGMENT:] - sums[:first]) * _powers(INVERSE_OF_STEP, len(hashes))[:first])


@lru_cache(4)
def _powers(base: np.uint64, count: int) -> Hashes:
    """The first powers of a number, from 1 on."""
    powers = np.full(count, base)
    powers[0] = 1
    return np.cumprod(powers)


def _break_convexity(counts: Ints) -> bool:
    """Whether too few contents occur k + 1 times, for those that occur k - 1 and k times."""
    occurring = np.bincount(np.minimum(counts, 8), minlength=9).astype(float)
    for k in range(2, 7):
        low = max(0.0, occurring[k] - ERRORS * math.sqrt(occurring[k]))
        high = occurring[k - 1] + ERRORS * math.sqrt(occurring[k - 1]) + ERRORS
        expected = low * low / high * k / (k + 1)
        if expected - occurring[k + 1] > ERRORS * math.sqrt(expected + 1.0):
            return True
    return False
