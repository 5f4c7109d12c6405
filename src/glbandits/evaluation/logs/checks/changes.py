"""Whether the means of columns change over the rows, and since when.

The rows are cut into blocks of equal size. At each cut the means before and after it are compared. The variance comes
from differences of adjacent blocks, so that slow changes and dependent neighbours do not make it too small. The largest
deviation is compared with that of a Brownian bridge (Miller and Siegmund, 1982), for all columns together. If there is
a change, the rows after it are tested again, until no further change is found.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from glbandits.common.arrays import Floats
from glbandits.maths.online_statistics.running_sums import RunningSums

BLOCKS = 256
"""Maximum number of blocks; from 256 rows on there are at least half as many."""
LEAST_BLOCKS = 16
"""Fewer blocks are not tested."""
EDGE = 0.05
"""The share of rows at both ends that has no cut: there few rows would decide."""
ROUNDING = 1e-9
"""A column that varies less, relative to its sums, is constant."""
LEVEL = 0.002
"""The probability that a log without a change has one, over all columns."""


def last_change(sums: RunningSums, tested: Sequence[bool] | None = None, level: float = LEVEL) -> int:
    """Return the row from which on no column changes any more; 0 if none changes.

    Args:
        sums: of the columns, with up to `BLOCKS` points.
        tested: which of the columns are tested; by default all.
        level: the probability of a false change, over all columns.
    """
    table = sums.table()
    table = np.hstack([np.zeros((len(table), 1)), table])
    ends, columns = table[0], table[1:] if tested is None else table[1:][np.array(tested)]
    start, limit = 0, _limit(level / max(1, len(columns)))
    while len(ends) - 1 - start >= LEAST_BLOCKS:
        cut = _largest_change(ends[start:], columns[:, start:], limit)
        if not cut:
            break
        start += cut
    return int(ends[start])


def _largest_change(ends: Floats, columns: Floats, limit: float) -> int:
    """The index of the cut where a column changes most, plus one block of margin; 0 if none exceeds the limit."""
    rows, sums = ends - ends[0], columns - columns[:, :1]
    sizes, steps = np.diff(rows), np.diff(sums, axis=1)
    whole = sizes == sizes[0]  # the last block may be shorter
    means = steps[:, whole] / sizes[0]
    variances = (np.diff(means, axis=1) ** 2).mean(axis=1) / 2.0 * sizes[0]
    share = rows / rows[-1]
    inside = (share >= EDGE) & (share <= 1.0 - EDGE)
    bridges = sums - share * sums[:, -1:]
    scale = np.sqrt(variances[:, np.newaxis] * rows[-1] * (share * (1.0 - share))[np.newaxis])
    known = inside & (scale > ROUNDING * np.abs(sums).max(axis=1, keepdims=True))
    deviations = np.divide(np.abs(bridges), scale, out=np.zeros_like(scale), where=known)
    if not deviations.size or deviations.max() <= limit:
        return 0
    cut = int(np.unravel_index(np.argmax(deviations), deviations.shape)[1])
    return min(cut + 1, len(ends) - 2)


def _limit(level: float) -> float:
    """The value that the largest deviation of one column exceeds with probability `level`.

    It is a little larger than that of a Brownian bridge, because the variance is estimated from about 128 blocks.
    """
    reach = 2.0 * math.log((1.0 - EDGE) / EDGE)

    def excess(limit: float) -> float:
        density = math.exp(-0.5 * limit * limit) / math.sqrt(2.0 * math.pi)
        return density * ((limit - 1.0 / limit) * reach + 4.0 / limit) - level

    return 1.1 * float(brentq(excess, 1.5, 12.0))
