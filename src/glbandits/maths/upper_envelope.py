"""Who is on top: the chance of each of several lines to be the highest at a random place.

A rule that scores arms by level + Z slope, with one shared Z, plays the arm whose line is the highest at Z. Lines that
are ever the highest form a convex chain, found by a sort and one pass, and each of them rules one interval: its chance
is exact.
"""

import math

import numpy as np

from glbandits.numba_support import jittable
from glbandits.records import Floats


@jittable
def half_normal_chances(levels: Floats, slopes: Floats, out: Floats) -> None:
    """The chance of each line to be the highest at |Z|, Z standard normal; of equal lines the first has it all.

    Slopes must not be negative. O(K log K).
    """
    order = np.argsort(slopes, kind="mergesort")
    chain = np.empty(order.shape[0], dtype=np.int64)  # the highest lines, from place 0 outwards
    starts = np.empty(order.shape[0])  # where each of them begins to rule
    size = 0
    for line in order:
        out[line] = 0.0
        start, useful = 0.0, True
        while size > 0:
            last = chain[size - 1]
            rise = slopes[line] - slopes[last]
            if rise == 0.0:
                if levels[line] <= levels[last]:  # a parallel line; the first of equal ones stays
                    useful = False
                    break
                size -= 1
                continue
            start = max((levels[last] - levels[line]) / rise, 0.0)
            if start > starts[size - 1]:
                break
            size -= 1
            start = 0.0
        if useful:
            chain[size], starts[size] = line, start
            size += 1
    above = 1.0  # the chance to be beyond where the next line begins to rule
    for k in range(size):
        beyond = math.erfc(starts[k + 1] / math.sqrt(2.0)) if k + 1 < size else 0.0
        out[chain[k]] = above - beyond
        above = beyond
