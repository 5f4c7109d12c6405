"""The upper envelope of lines: the probability of each line to be the highest one at a random position.

A rule that scores arms by level + Z slope, with one Z for all arms, plays the arm whose line is the highest at Z. The
lines that are the highest somewhere form a convex chain. A sort and one pass find it, and each line of the chain is
the highest in one interval. This gives its exact probability.
"""

import math

import numpy as np

from glbandits.numba_support import jittable
from glbandits.records import Floats, Ints


@jittable
def half_normal_probabilities(levels: Floats, slopes: Floats, out: Floats) -> None:
    """Write the probability of each line to be the highest at |Z|, Z standard normal.

    Of equal lines the first gets all of it. Slopes must not be negative. O(K log K).
    """
    order = ascending_order(slopes)
    chain = np.empty(order.shape[0], dtype=np.int64)  # the highest lines, by position
    starts = np.empty(order.shape[0])  # the position from which each of them is the highest
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
    above = 1.0  # the probability of |Z| to be above the start of line k
    for k in range(size):
        beyond = math.erfc(starts[k + 1] / math.sqrt(2.0)) if k + 1 < size else 0.0
        out[chain[k]] = above - beyond
        above = beyond


@jittable
def ascending_order(values: Floats) -> Ints:
    """The indices that sort the values; equal values keep their order. O(K log K).

    A merge sort with loops: `np.argsort` takes four seconds to compile.
    """
    size = values.shape[0]
    order, merged = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for k in range(size):
        order[k] = k
    width = 1
    while width < size:
        for start in range(0, size, 2 * width):
            middle, end = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for k in range(start, end):
                if right == end or (left < middle and values[order[left]] <= values[order[right]]):
                    merged[k] = order[left]
                    left += 1
                else:
                    merged[k] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
